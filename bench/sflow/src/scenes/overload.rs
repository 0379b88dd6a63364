//! More than it can take: what is lost is counted, at the socket and by the agents' sequence numbers.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use bench_measure::Report;
use serde_json::json;

use super::Scale;
use crate::collector::{Collector, LISTENER, Place};
use crate::load::{Load, Plan};
use crate::programs::Programs;
use crate::source::while_sending;

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!("Overload: as much as the source can send, to one worker on one processor");
    let plan = Plan::USUAL;
    let mut load = Load::new(plan)?;
    let collector = Collector::weir(programs, "", Place::Pinned)?;
    let ns = collector.ns.try_clone()?;
    // All agents are known when it begins, and say at the end how many they have sent.
    let calm = |load: &mut Load| {
        while_sending(&ns, LISTENER, load, Some(CALM), |_| {
            sleep(Duration::from_secs_f64(f64::from(plan.agents) * 20.0 / CALM));
            Ok(())
        })
    };
    let ((), first) = calm(&mut load)?;
    collector.settle()?;
    let ((), flood) = while_sending(&ns, LISTENER, &mut load, None, |_| {
        sleep(scale.cost * 2);
        Ok(())
    })?;
    collector.settle()?;
    let ((), last) = calm(&mut load)?;
    let dropped = collector.settle()?;
    let ledger = collector.end()?;
    let sent = first + flood + last;
    let number = |path: &str| {
        ledger.pointer(path).and_then(serde_json::Value::as_u64).with_context(|| format!("no {path} in the ledger"))
    };
    let (received, analysed, told) = (number("/received/datagrams")?, number("/analysed")?, number("/lost_before")?);
    let by_ledger = number("/listeners/0/kernel_drops")?;
    println!(
        "    {sent} sent: {received} received, {analysed} of them analysed; {dropped} dropped by the kernel at the socket"
    );
    println!(
        "    the ledger tells of {by_ledger} dropped at the socket, and of {told} missing by the agents' sequence numbers"
    );
    let closes = sent == received + dropped && by_ledger == dropped && ledger["closed"] == true;
    let words = report.goal(
        "the sum under overload",
        "sent = received + dropped",
        &format!("{} over", sent as i64 - received as i64 - dropped as i64),
        closes,
    );
    println!("    sent = received + dropped {words}");
    let words =
        report.goal("what agents' sequences tell of it", "= dropped", &format!("{told} of {dropped}"), told == dropped);
    println!("    missing by sequence = dropped {words}");
    if dropped == 0 {
        println!("    the source cannot overload it");
    }
    report.figure(json!({"scene": "overload", "sent": sent, "received": received, "analysed": analysed,
        "dropped": dropped, "missing": told}));
    Ok(())
}

/// Datagrams a second that lose nothing.
const CALM: f64 = 2_000.0;
