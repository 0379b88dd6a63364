//! What an agent costs that samples one packet of 1,000 at 1 Gbit/s, beside pmacct's probe.

use std::fs::{self, File};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_measure::{Report, machine, median, peer};
use ipnet::IpNet;
use nix::sys::signal::Signal;
use nix::time::{ClockId, clock_gettime};
use serde_json::json;
use weir_kernel::links::{MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;
use weir_kernel::namespaces::process::Program;

use super::Scale;
use crate::programs::Programs;

/// Who samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agent {
    Nobody,
    Weir,
    /// With what a container leaves to root.
    WithoutEbpf,
    Pmacct,
}

/// What one costs.
struct Cost {
    /// Share of a processor in its own processes.
    share: f64,
    /// Processor time of whoever sends, a datagram, ns; what the kernel does for the agent is in it.
    sending: f64,
}

pub(crate) fn run(programs: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    println!("Agent: 1 of 1,000 packets sampled of 1 Gbit/s of 1,400-byte datagrams, leaving by a veth pair");
    let contenders = [
        (Agent::Nobody, "nobody", true),
        (Agent::Weir, "weir sflow agent", true),
        (Agent::WithoutEbpf, "weir sflow agent, no eBPF", Path::new(SETPRIV).exists()),
        (Agent::Pmacct, "pmacct sfprobe", peer("pmacctd").exists()),
    ];
    let mut costs = [const { Vec::new() }; 4];
    for _ in 0..scale.rounds {
        for ((agent, _, is_there), costs) in contenders.iter().zip(&mut costs) {
            if *is_there {
                costs.push(look(programs, *agent, scale.cost * 3)?);
            }
        }
    }
    let middle = |costs: &[Cost], of: fn(&Cost) -> f64| median(&costs.iter().map(of).collect::<Vec<_>>());
    let nobody = middle(&costs[0], |cost| cost.sending);
    for ((agent, name, is_there), costs) in contenders.iter().zip(&costs) {
        if !is_there {
            println!("    {name} is missing, left out (apt install pmacct util-linux)");
            continue;
        }
        let (share, sending) = (middle(costs, |cost| cost.share), middle(costs, |cost| cost.sending));
        let more = sending - nobody;
        match agent {
            Agent::Nobody => println!("    {name}: sending takes {sending:.0} ns a datagram"),
            _ => println!(
                "    {name}: {:.2} % of a processor in its own processes, sending {more:+.0} ns",
                100.0 * share
            ),
        }
        report.figure(json!({"scene": "agent", "agent": name, "share": share, "sending_ns": sending}));
    }
    for (costs, means) in costs[1..3].iter().zip(["", ", without eBPF"]).filter(|(costs, _)| !costs.is_empty()) {
        let own = middle(costs, |cost| cost.share);
        let words = report.goal(
            &format!("an agent at 1:1000 and 1 Gbit/s{means}"),
            "<= 1 % of a processor",
            &format!("{:.2} %", 100.0 * own),
            own <= 0.01,
        );
        println!("    at most 1 %{means} {words}");
    }
    Ok(())
}

fn look(programs: &Programs, agent: Agent, span: Duration) -> Result<Cost> {
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
    let flags = ["sflow", "agent", "--to", "127.0.0.1", "--sampling", "1000", "--drops", "0"];
    let program = match agent {
        Agent::Nobody => Program::new(&from, "agent", "sleep").args(["3600"]),
        Agent::Weir => Program::new(&from, "agent", &programs.weir).args(flags),
        Agent::WithoutEbpf => Program::new(&from, "agent", SETPRIV)
            .args(["--bounding-set=-bpf,-perfmon,-sys_admin", "--inh-caps=-all"])
            .args([&programs.weir])
            .args(flags),
        Agent::Pmacct => Program::new(&from, "agent", peer("pmacctd")).args([Path::new("-f"), &file]),
    };
    let program = program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&errors)?);
    let running = program.spawn()?;
    let ready = match agent {
        Agent::Nobody => "",
        Agent::Weir | Agent::WithoutEbpf => "ready",
        Agent::Pmacct => "link type",
    };
    let begin = Instant::now();
    while !fs::read_to_string(&errors)?.contains(ready) {
        ensure!(begin.elapsed() < PATIENCE, "{}", fs::read_to_string(&errors)?);
        thread::sleep(Duration::from_millis(10));
    }

    let stop = AtomicBool::new(false);
    let sender = from.run(|| UdpSocket::bind("10.0.0.1:0"))??;
    let (share, (rate, sending)) = thread::scope(|scope| -> Result<_> {
        let sending = scope.spawn(|| send(&sender, &stop));
        // It has begun.
        thread::sleep(span / 4);
        let (before, begin) = (machine::cpu_time(running.init_id())?, Instant::now());
        thread::sleep(span);
        let (after, elapsed) = (machine::cpu_time(running.init_id())?, begin.elapsed());
        stop.store(true, Ordering::Relaxed);
        let sent = sending.join().ok().context("the sender panicked")??;
        Ok(((after - before).as_secs_f64() / elapsed.as_secs_f64(), sent))
    })?;
    running.signal(Signal::SIGTERM)?;
    ensure!(rate > 0.9 * RATE, "the sender manages only {rate:.0} datagrams a second");
    Ok(Cost { share, sending })
}

/// Sends until told to stop; datagrams a second, and the time of this thread that one takes, ns.
fn send(sender: &UdpSocket, stop: &AtomicBool) -> Result<(f64, f64)> {
    let (begin, mut sent) = (Instant::now(), 0_u32);
    let busy = || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from);
    let busy_before = busy()?;
    while !stop.load(Ordering::Relaxed) {
        let due = (begin.elapsed().as_secs_f64() * RATE) as u32;
        while sent < due {
            sender.send_to(&[0; 1400], "10.0.0.2:5000")?;
            sent += 1;
        }
        thread::sleep(Duration::from_micros(500));
    }
    let each = (busy()? - busy_before).as_nanos() as f64 / f64::from(sent.max(1));
    Ok((f64::from(sent) / begin.elapsed().as_secs_f64(), each))
}

/// Datagrams of 1,442 bytes with their headers a second, in 1 Gbit/s.
const RATE: f64 = 1e9 / (8.0 * 1442.0);

/// Of util-linux, which each Debian has.
const SETPRIV: &str = "/usr/bin/setpriv";

const PATIENCE: Duration = Duration::from_secs(20);

const PMACCTD: &str = "daemonize: false
pcap_interface: eth0
snaplen: 128
plugins: sfprobe[x]
sfprobe_receiver[x]: 127.0.0.1:6343
sfprobe_agentip[x]: 10.0.0.1
sampling_rate[x]: 1000
";
