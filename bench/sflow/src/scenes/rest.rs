//! How soon the hundred largest of a million flows are told.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_measure::Report;
use serde_json::json;

use super::{Scale, quantile};
use crate::collector::{Collector, LISTENER, Place};
use crate::load::{Load, Plan};
use crate::programs::Programs;
use crate::source::while_sending;

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!("GET /activeflows/ALL/all/json?maxFlows=100 over a million flows");
    // Hardly a conversation twice in a pass, and all of them others in the next one.
    let mut load = Load::new(Plan { conversations: 100_000_000, churn: true, ..Plan::USUAL })?;
    let more = "[limits]\nflows = 8000000\n\n[flow.all]\nkeys = \"ipsource,ipdestination,ipprotocol,or:tcpsourceport:udpsourceport:icmptype,or:tcpdestinationport:udpdestinationport:icmpcode\"\nactive_timeout = 3600\nt = 10\n";
    let collector = Collector::weir(programs, more, Place::Anywhere)?;
    let (ns, mut client) = (collector.ns.try_clone()?, collector.client()?);
    // What other definitions hold does not matter here.
    for definition in client.get("/flow/json")?.as_object().context("definitions are an object")?.keys() {
        if definition != "all" {
            client.delete(&format!("/flow/{definition}/json"))?;
        }
    }
    while_sending(&ns, LISTENER, &mut load, Some(FILLING), |_| {
        let deadline = Instant::now() + Duration::from_secs(120);
        while client.get("/analyzer/json")?["flows_entries"].as_u64().context("no flows_entries")? < FLOWS {
            ensure!(Instant::now() < deadline, "there are no {FLOWS} flows after two minutes");
            sleep(Duration::from_millis(100));
        }
        Ok(())
    })?;
    for ingest in [0.0, INGEST] {
        let mut ask = || -> Result<Vec<f64>> {
            let mut times = Vec::new();
            for _ in 0..scale.questions {
                let start = Instant::now();
                let flows = client.get("/activeflows/ALL/all/json?maxFlows=100")?;
                times.push(start.elapsed().as_secs_f64());
                ensure!(flows.as_array().is_some_and(|flows| flows.len() == 100), "not a hundred flows");
                sleep(Duration::from_millis(5));
            }
            times.sort_by(f64::total_cmp);
            Ok(times)
        };
        let times =
            if ingest == 0.0 { ask()? } else { while_sending(&ns, LISTENER, &mut load, Some(ingest), |_| ask())?.0 };
        let [p50, p99, most] = [0.5, 0.99, 1.0].map(|share| quantile(&times, share) * 1e3);
        let goal = |report: &mut Report| {
            report.goal("top 100 of a million flows, p99", "< 50 ms", &format!("{p99:.1} ms"), p99 < 50.0)
        };
        let words = if ingest > 0.0 { goal(report) } else { String::new() };
        let flows = client.get("/analyzer/json")?["flows_entries"].as_u64().unwrap_or_default();
        println!(
            "    {flows} flows, {ingest:6.0} datagrams/s in: p50 {p50:5.1} ms, p99 {p99:5.1} ms, at most {most:5.1} ms {words}"
        );
        report.figure(json!({"scene": "rest", "ingest": ingest, "p50_ms": p50, "p99_ms": p99, "max_ms": most}));
    }
    Ok(())
}

/// Flows that there are to be.
const FLOWS: u64 = 1_000_000;

/// Datagrams a second until they are there.
const FILLING: f64 = 50_000.0;

/// Datagrams a second while they are asked for.
const INGEST: f64 = 20_000.0;
