//! What a station costs with 1 and with 200 receivers of its group.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench_measure::{Report, build_weir, machine, median};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use weir_kernel::links::{MacAddress, Netlink, VethEnd};
use weir_kernel::namespaces::NetNs;

use super::Scale;
use crate::programs::Programs;

pub(crate) fn run(_: &Programs, scale: Scale, report: &mut Report) -> Result<()> {
    let weir = build_weir()?;
    println!("A station of 64 channels at 1 kHz, thinned to 200 buckets a second: its processor time and bytes");
    let mut looks = [(1, Vec::new()), (200, Vec::new())];
    for _ in 0..scale.rounds {
        for (receivers, seen) in &mut looks {
            // Long, so that what differs is not chance.
            seen.push(look(&weir, *receivers, scale.look * 4)?);
        }
    }
    let mut medians = Vec::new();
    for (receivers, seen) in &looks {
        let of = |read: fn(&Cost) -> f64| median(&seen.iter().map(read).collect::<Vec<_>>());
        let (cpu, bytes) = (of(|cost| cost.cpu), of(|cost| cost.bytes_per_s));
        println!("  {receivers:3} receivers: {:5.2} % of a processor, {:.1} kB/s", cpu * 100.0, bytes / 1e3);
        report.figure(json!({"scene": "send", "receivers": receivers, "cpu": cpu, "bytes_per_s": bytes}));
        medians.push((cpu, bytes));
    }
    for (what, one, many) in [("processor time", medians[0].0, medians[1].0), ("bytes", medians[0].1, medians[1].1)] {
        let more = (many / one - 1.0) * 100.0;
        let verdict = report.goal(
            &format!("{what} of a station with 200 receivers, over that with one"),
            "within 5 %",
            &format!("{more:+.1} %"),
            more.abs() <= 5.0,
        );
        println!("  {what}: {more:+.1} % {verdict}");
    }
    Ok(())
}

struct Cost {
    /// Processors.
    cpu: f64,
    bytes_per_s: f64,
}

/// Two hosts and a cable. The receiving host takes frames off the sending processor at once, as a cable would.
fn look(weir: &Path, receivers: usize, time: Duration) -> Result<Cost> {
    let [one, other] = [NetNs::create()?, NetNs::create()?];
    let end = |ns, number| VethEnd { ns, name: "eth0", mac: MacAddress::local(number), mtu: 1500, queue_length: 1000 };
    Netlink::open(&one)?.add_veth(&end(&one, 2), &end(&other, 4))?;
    for (ns, number) in [(&one, 1), (&other, 2)] {
        let mut netlink = Netlink::open(ns)?;
        let eth0 = netlink.link("eth0")?.index;
        netlink.set_up(eth0)?;
        netlink.add_address(eth0, format!("10.0.0.{number}/24").parse()?)?;
    }
    let members: Vec<UdpSocket> = other.run(|| {
        steer()?;
        (0..receivers).map(|_| join()).collect::<Result<_>>()
    })??;
    let mut station = Station(one.run(|| {
        machine::pinned(machine::REPLICATOR, || {
            let source = "sine,name=coil,rate=1k/s,copies=64";
            let arguments = ["monitor", "station", "--json", "--interface", "eth0", "--source", source];
            Ok(Command::new(weir).args(arguments).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
        })
    })??);
    std::thread::sleep(Duration::from_millis(300));
    let (before, begun) = (station.cpu()?, Instant::now());
    std::thread::sleep(time);
    let (after, elapsed) = (station.cpu()?, begun.elapsed());
    kill(Pid::from_raw(station.0.id() as i32), Signal::SIGTERM)?;
    let stdout = station.0.stdout.take().context("it has no output")?;
    let ledger: Value = serde_json::from_reader(stdout)?;
    ensure!(ledger["closed"] == true, "the ledger does not close: {ledger}");
    let bytes = ledger["streams"][0]["outlets"][0]["bytes"].as_f64().context("no bytes")?;
    drop(members);
    Ok(Cost {
        cpu: (after - before).as_secs_f64() / elapsed.as_secs_f64(),
        bytes_per_s: bytes / ledger["elapsed_s"].as_f64().context("no time")?,
    })
}

/// Has frames that come to this host taken by the processor that the station does not run on. Only a mount of /sys that was made in a
/// network shows its interfaces.
fn steer() -> Result<()> {
    let file = "/sys/class/net/eth0/queues/rx-0/rps_cpus";
    let script = format!("mount -t sysfs none /sys && echo {:x} >{file}", 1 << machine::TRAFFIC);
    let output = Command::new("unshare").args(["--mount", "sh", "-c", &script]).output()?;
    ensure!(output.status.success(), "steer frames: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// A member of the group. Only the first can have the address without sharing it.
fn join() -> Result<UdpSocket> {
    let group = Ipv4Addr::new(239, 192, 77, 1);
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&std::net::SocketAddr::from((group, 5110)).into())?;
    let socket = UdpSocket::from(socket);
    socket.join_multicast_v4(&group, &Ipv4Addr::new(10, 0, 0, 2))?;
    Ok(socket)
}

/// Killed when dropped.
struct Station(Child);

impl Station {
    /// Time on processors, of all threads.
    fn cpu(&self) -> Result<Duration> {
        let mut nanos = 0;
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.0.id()))? {
            let text = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            nanos += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
