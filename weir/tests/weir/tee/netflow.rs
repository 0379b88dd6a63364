//! NetFlow from a real exporter into two collectors: each has the flows that it would have without the tee.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::Signal;
use tempfile::TempDir;
use weir_kernel::namespaces::process::Running;

use super::network::{Host, network};
use super::{Tee, program};

#[test]
fn two_collectors_have_every_flow() {
    let (Some(softflowd), Some(nfcapd), Some(nfdump)) = (program("softflowd"), program("nfcapd"), program("nfdump"))
    else {
        return;
    };
    let Some([exporter, host, a, b, direct]) = network(["exporter", "tee", "a", "b", "direct"]) else { return };
    let dir = TempDir::new().unwrap();
    let capture = dir.path().join("capture.pcap");
    fs::write(&capture, capture_of(FLOWS)).unwrap();
    for version in ["5", "9", "10"] {
        let collect =
            |host: &Host| Collector::start(host, &nfcapd, &dir.path().join(format!("{}-{version}", host.name)));
        let collectors = [&a, &b, &direct].map(|host| (host, collect(host)));
        let tee = Tee::start(&host, &["0.0.0.0:2055"], &[a.at(2055), b.at(2055)]);
        let [exported, _] = [&host, &direct].map(|to| {
            let (capture, ids) = (capture.to_str().unwrap(), dir.path().join("softflowd.pid"));
            let to = to.at(2055).to_string();
            let flags = ["-D", "-v", version, "-m", "100000", "-c", "none", "-r", capture, "-n", &to, "-p"];
            let said = exporter.output(&softflowd, &[&flags[..], &[ids.to_str().unwrap()]].concat());
            // Flows exported: 5000 (5000 records) in 167 packets (0 failures)
            let line = said.lines().find(|line| line.starts_with("Flows exported: ")).unwrap();
            let packets = line.split_once(") in ").unwrap().1.split_once(" packets (0 failures)").unwrap().0;
            packets.parse().unwrap_or_else(|_| panic!("{line}"))
        });
        tee.end().is_lossless(exported);
        let [a, b, direct] = collectors.map(|(host, collector)| collector.flows(host, &nfdump));
        assert_eq!([a.len(), b.len()], [FLOWS; 2], "version {version}");
        assert!(a == b, "version {version}: the collectors differ");
        // The second export counts time from its own start.
        let untimed = |flows: Vec<Flow>| flows.into_iter().map(|flow| flow.0).collect::<Vec<_>>();
        assert!(untimed(a) == untimed(direct), "version {version}: other flows than without the tee");
    }
}

/// A flow as nfdump prints it, and when it began.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flow(String, String);

/// A collector with its directory.
struct Collector {
    running: Running,
    dir: String,
}

impl Collector {
    fn start(host: &Host, nfcapd: &Path, dir: &Path) -> Collector {
        fs::create_dir(dir).unwrap();
        let (dir, ids) = (dir.to_str().unwrap().to_owned(), dir.join("pid"));
        let flags = ["-w", &dir, "-p", "2055", "-B", "8000000", "-t", "3600", "-P", ids.to_str().unwrap()];
        let program = host.program(nfcapd).args(flags).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = program.spawn().unwrap();
        host.await_port(2055, &mut running);
        Collector { running, dir }
    }

    /// Ends it when it has read all; the flows in its files, sorted.
    fn flows(mut self, host: &Host, nfdump: &Path) -> Vec<Flow> {
        host.await_read(2055);
        self.running.signal(Signal::SIGTERM).unwrap();
        assert_eq!(self.running.wait().unwrap(), 0);
        let form = "fmt:%sa %sp %da %dp %pr %pkt %byt;%ts";
        let listing = host.output(nfdump, &["-R", &self.dir, "-q", "-N", "-o", form]);
        let flow = |line: &str| line.split_once(';').map(|(flow, time)| Flow(flow.into(), time.into())).unwrap();
        let mut flows: Vec<Flow> = listing.lines().map(flow).collect();
        flows.sort();
        flows
    }
}

/// A capture file of UDP flows (LINKTYPE_ETHERNET, microseconds): 1 to 3 packets each.
fn capture_of(flows: usize) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(u32::to_le_bytes(word));
    }
    for flow in 0..flows {
        let source = Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 1, 0, 0)) + u32::try_from(flow).unwrap());
        for packet in 0..=flow % 3 {
            let payload = vec![0; 20 + flow % 1000];
            let frame =
                udp_frame(source, Ipv4Addr::new(10, 2, 0, 1), 1024 + u16::try_from(flow).unwrap(), 53, &payload);
            let length = u32::try_from(frame.len()).unwrap();
            for word in [START + u32::try_from(packet).unwrap(), u32::try_from(flow).unwrap(), length, length] {
                file.extend(word.to_le_bytes());
            }
            file.extend(frame);
        }
    }
    file
}

/// An Ethernet frame; nobody checks its checksums.
fn udp_frame(source: Ipv4Addr, destination: Ipv4Addr, from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(8 + payload.len()).unwrap();
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
    frame.extend([0x45, 0]);
    frame.extend((20 + length).to_be_bytes());
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(source.octets());
    frame.extend(destination.octets());
    for word in [from, to, length, 0] {
        frame.extend(word.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

/// What they are exported in fits into the receive buffer of a collector that does not read yet.
const FLOWS: usize = 2500;

/// When the first packet was captured, seconds of the epoch.
const START: u32 = 1_780_000_000;
