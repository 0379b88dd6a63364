//! What an agent costs that samples one packet of 1,000 at 1 Gbit/s, beside pmacct's probe.

use std::fs::{self, File};
use std::net::{Ipv4Addr, UdpSocket};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_measure::{Report, machine, median, peer};
use ipnet::IpNet;
use nix::sys::signal::Signal;
use serde_json::json;
use weir_kernel::links::{MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::Program;

use super::Scale;
use crate::programs::Programs;

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!("Agent: 1 of 1,000 packets sampled of 1 Gbit/s of 1,400-byte datagrams, leaving by a veth pair");
    let probe = peer("pmacctd");
    let contenders = [("weir sflow agent", true), ("pmacct sfprobe", probe.exists())];
    let mut shares = [Vec::new(), Vec::new()];
    for _ in 0..scale.rounds {
        for (index, _) in contenders.iter().enumerate().filter(|(_, (_, is_there))| *is_there) {
            shares[index].push(look(programs, index == 0, scale.cost * 3)?);
        }
    }
    for ((name, is_there), shares) in contenders.iter().zip(&shares) {
        if !is_there {
            println!("    {name} is missing, left out (apt install pmacct)");
            continue;
        }
        let share = median(shares);
        println!("    {name}: {:.2} % of a processor in its own processes", 100.0 * share);
        report.figure(json!({"scene": "agent", "agent": name, "share": share}));
    }
    let own = median(&shares[0]);
    let words = report.goal(
        "an agent at 1:1000 and 1 Gbit/s",
        "<= 1 % of a processor",
        &format!("{:.2} %", 100.0 * own),
        own <= 0.01,
    );
    println!("    at most 1 % {words}");
    Ok(())
}

/// The share of a processor that one takes.
fn look(programs: &Programs, own: bool, span: Duration) -> Result<f64> {
    let (from, to) = (NetNs::create()?, NetNs::create()?);
    let end = |ns, number| VethEnd { ns, name: "eth0", mac: MacAddress::local(number), mtu: 1500, queue_length: 1000 };
    Netlink::open(&from)?.add_veth(&end(&from, 2), &end(&to, 4))?;
    for (ns, number, other) in [(&from, 1, 4), (&to, 2, 2)] {
        let mut netlink = Netlink::open(ns)?;
        let eth0 = netlink.link("eth0")?.index;
        netlink.set_loopback_up()?;
        netlink.set_no_link_local(eth0)?;
        netlink.set_up(eth0)?;
        netlink.add_address(eth0, IpNet::new(Ipv4Addr::new(10, 0, 0, number).into(), 24)?)?;
        netlink.add_neighbour(eth0, Ipv4Addr::new(10, 0, 0, 3 - number).into(), MacAddress::local(other))?;
    }
    Netlink::open(&from)?.wait_until_running("eth0")?;
    let _collector = from.run(|| UdpSocket::bind("127.0.0.1:6343"))??;
    let _sink = to.run(|| UdpSocket::bind("10.0.0.2:5000"))??;

    let file = programs.directory().join("pmacctd.conf");
    fs::write(&file, PMACCTD)?;
    let errors = programs.directory().join("agent.errors");
    let program = match own {
        true => Program::new(&from, "agent", &programs.weir).args([
            "sflow",
            "agent",
            "--to",
            "127.0.0.1",
            "--sampling",
            "1000",
            "--drops",
            "0",
        ]),
        false => Program::new(&from, "agent", peer("pmacctd")).args(["-f".to_owned(), file.display().to_string()]),
    };
    let program = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&errors)?);
    let running = program.spawn()?;
    let begin = Instant::now();
    while !fs::read_to_string(&errors)?.contains(if own { "ready" } else { "link type" }) {
        ensure!(begin.elapsed() < PATIENCE, "{}", fs::read_to_string(&errors)?);
        thread::sleep(Duration::from_millis(10));
    }

    let stop = AtomicBool::new(false);
    let sender = from.run(|| UdpSocket::bind("10.0.0.1:0"))??;
    let (share, rate) = thread::scope(|scope| -> Result<(f64, f64)> {
        let sending = scope.spawn(|| send(&sender, &stop));
        // It has begun.
        thread::sleep(span / 4);
        let (before, begin) = (machine::cpu_time(running.init_id())?, Instant::now());
        thread::sleep(span);
        let (after, elapsed) = (machine::cpu_time(running.init_id())?, begin.elapsed());
        stop.store(true, Ordering::Relaxed);
        let rate = sending.join().ok().context("the sender panicked")??;
        Ok(((after - before).as_secs_f64() / elapsed.as_secs_f64(), rate))
    })?;
    running.signal(Signal::SIGTERM)?;
    ensure!(rate > 0.9 * RATE, "the sender manages only {rate:.0} datagrams a second");
    Ok(share)
}

/// Sends until told to stop; datagrams a second.
fn send(sender: &UdpSocket, stop: &AtomicBool) -> Result<f64> {
    let (begin, mut sent) = (Instant::now(), 0_u32);
    while !stop.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * RATE) as u32;
        while sent < due {
            sender.send_to(&[0; 1400], "10.0.0.2:5000")?;
            sent += 1;
        }
        thread::sleep(Duration::from_micros(500));
    }
    Ok(f64::from(sent) / begin.elapsed().as_secs_f64())
}

/// Datagrams of 1,442 bytes with their headers a second, in 1 Gbit/s.
const RATE: f64 = 1e9 / (8.0 * 1442.0);

const PATIENCE: Duration = Duration::from_secs(20);

const PMACCTD: &str = "daemonize: false
pcap_interface: eth0
snaplen: 128
plugins: sfprobe[x]
sfprobe_receiver[x]: 127.0.0.1:6343
sfprobe_agentip[x]: 10.0.0.1
sampling_rate[x]: 1000
";
