//! Reloads under load, each adding a listener and a destination and removing those of the reload before.

use std::fs;
use std::net::SocketAddrV4;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_measure::{Report, median};
use nix::sys::signal::Signal;
use serde_json::json;

use super::Scale;
use crate::network::{LISTENER, MOST_SINKS, Network, SINGLES, sink};
use crate::replicator::{Kind, Place, Programs};
use crate::sinks::{Look, Sinks};
use crate::stream::{Stream, while_sending};

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!("{} reloads by SIGHUP under {RATE:.0} datagrams/s of {SIZE} bytes to two sinks that stay", scale.reloads);
    println!("  each adds a listener and a destination, and removes those that the one before added");
    if !programs.has(Kind::Weir) {
        return Ok(());
    }
    let network = Network::new(SINGLES)?;
    let stay = [sink(0), sink(1)];
    let sinks = Sinks::open(&network.sinks, &stay, SIZE, Look::Count)?;
    // Open, so that nothing answers with ICMP; read by nobody.
    let passing: Vec<SocketAddrV4> = (stay.len()..MOST_SINKS).map(sink).collect();
    let _passing = Sinks::open(&network.sinks, &passing, SIZE, Look::Count)?;

    let file = programs.directory().join("tee.toml");
    let manager = programs.directory().join("notify");
    let _ = fs::remove_file(&manager);
    let notices = UnixDatagram::bind(&manager).with_context(|| format!("bind {}", manager.display()))?;
    notices.set_read_timeout(Some(Duration::from_secs(10)))?;
    write(&file, &stay, None)?;
    let arguments = ["tee".to_owned(), "-c".into(), file.display().to_string()];
    let environment = [("NOTIFY_SOCKET", manager.to_str().context("a path that is not UTF-8")?)];
    let tee = programs.start_with(Kind::Weir, &network, &arguments, &environment, Place::Anywhere)?;
    await_ready(&notices)?;

    let work = || {
        while_sending(&Stream::paced(SIZE, RUN, RATE), &network.source, LISTENER, |progress| {
            while progress.sent.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            let mut times = Vec::new();
            for number in 0..scale.reloads {
                let passing = passing[number as usize % passing.len()];
                write(&file, &stay, Some((port(number), passing)))?;
                let start = Instant::now();
                tee.signal(Signal::SIGHUP)?;
                await_ready(&notices)?;
                times.push(start.elapsed().as_secs_f64() * 1e3);
                let ports = network.tee_ports()?;
                let before = number.checked_sub(1).map(port);
                ensure!(
                    ports.contains(&port(number)) && before.is_none_or(|before| !ports.contains(&before)),
                    "reload {number} did not take effect"
                );
            }
            Ok(times)
        })
    };
    let ((mut times, sent), tallies) = sinks.while_reading(Duration::from_millis(300), work)?;
    let lost = [tallies[0].lost(sent)?, tallies[1].lost(sent)?];
    let wrong: u64 = tallies.iter().map(|tally| tally.broken + tally.repeated).sum();
    let middle = median(&times);
    times.sort_by(f64::total_cmp);
    let longest = times.last().copied().unwrap_or_default();
    let early = network.listener_drops()?;
    let early = if early > 0 { format!(" ({early} of them in a full receive buffer)") } else { String::new() };
    let measured = format!("{} and {} of {sent} lost{early}, {wrong} broken or twice", lost[0], lost[1]);
    report.figure(json!({"scene": "reload", "reloads": scale.reloads, "sent": sent, "lost": lost, "wrong": wrong,
        "median_ms": middle, "longest_ms": longest}));
    let what = format!("{} reloads", scale.reloads);
    let verdict = report.goal(&what, "0 lost", &measured, lost == [0, 0] && wrong == 0);
    println!("  {measured} {verdict}; a reload takes {middle:.1} ms, at most {longest:.1} ms");
    ensure!(tee.stop()? == Some(0), "weir tee did not stop properly");
    Ok(())
}

/// Replaces the file as a careful person does: at once.
fn write(file: &Path, stay: &[SocketAddrV4], passing: Option<(u16, SocketAddrV4)>) -> Result<()> {
    let mut text = format!("[[listener]]\naddress = \"{LISTENER}\"\n");
    let destinations = stay.iter().copied().chain(passing.map(|(_, destination)| destination));
    if let Some((port, _)) = passing {
        text += &format!("[[listener]]\naddress = \"{}:{port}\"\n", LISTENER.ip());
    }
    for destination in destinations {
        text += &format!("[[destination]]\nto = \"{destination}\"\n");
    }
    let new = file.with_extension("new");
    fs::write(&new, text)?;
    Ok(fs::rename(new, file)?)
}

/// Waits for READY=1 (sd_notify(3)), which also ends a reload (Type=notify-reload).
pub(super) fn await_ready(notices: &UnixDatagram) -> Result<()> {
    let mut bytes = [0; 4096];
    loop {
        let length = notices.recv(&mut bytes).context("wait for READY=1 of weir tee")?;
        if String::from_utf8_lossy(&bytes[..length]).lines().any(|line| line == "READY=1") {
            return Ok(());
        }
    }
}

/// Of the listener that a reload adds.
fn port(number: u32) -> u16 {
    20_000 + number as u16
}

const SIZE: usize = 1000;
const RATE: f64 = 50_000.0;
const RUN: usize = 8;
