//! pmacct's probe: one data source for all, a pool that counts packets, counters every 20 s.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weir_testbed::network;

use super::meter::{RX_OCTETS, RX_PACKETS, TX_OCTETS, TX_PACKETS};
use super::{ALL_LOOKS, Analyser, Count, Hits, LOOKS, Meter, Octets, Started, traffic, whole_frames};

#[test]
fn flows_come() {
    compare(false);
}

/// Looks for flows, or compares rates: 80 s or so, the probe sends counters every 20 s, first within 20 s of its start.
pub(super) fn compare(rates: bool) {
    let Some(pmacctd) = weir_testbed::program("pmacctd") else { return };
    let Some(iperf3) = weir_testbed::program("iperf3") else { return };
    let Some(hosts) = network::cable(1500) else { return };
    let [probed, other] = &hosts;
    hosts.iter().for_each(whole_frames);
    let (analyser, meter) = (Analyser::start(&probed.ns), Meter::start(&probed.ns));
    analyser.define_senders(SMOOTHING);
    let _traffic = [traffic(&iperf3, other, probed, "14M", "1400"), traffic(&iperf3, probed, other, "1600K", "1400")];

    let dir = TempDir::new().unwrap();
    let file = dir.path().join("pmacctd.conf");
    fs::write(&file, CONFIGURATION).unwrap();
    // It has a process for each plugin.
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--kill-child"]).arg(pmacctd).arg("-f").arg(file).stdin(Stdio::null());
    let _probe = probed.run(|| Started::saying("link type", command));
    if !rates {
        return analyser.await_senders(&["10.0.0.1", "10.0.0.2"]);
    }
    let count = |column| Count::Column { interface: "eth0", column };
    let mut hits = [Hits::new("10.0.0.1", count(TX_PACKETS)), Hits::new("10.0.0.2", count(RX_PACKETS))];
    sleep(Duration::from_secs_f64(5.0 * SMOOTHING));

    let (mut octets, began) = ([Octets::default(), Octets::default()], Instant::now());
    while hits[0].of < LOOKS || octets[0].rates == 0 {
        assert!(began.elapsed() < ALL_LOOKS, "no rates: {}", analyser.get("/dump/ALL/ALL/json"));
        if hits[0].of < LOOKS {
            sleep(Duration::from_secs_f64(SMOOTHING));
            hits.iter_mut().for_each(|hits| hits.check(&analyser, &meter, SMOOTHING));
        } else {
            sleep(Duration::from_millis(100));
        }
        // It counts both directions together, as received.
        let Some((answer, at)) = analyser.dated("/dump/ALL/ifinoctets/json") else { continue };
        if let Some(measure) = answer.get(0) {
            octets[0].take((measure, at), &meter, &count(RX_OCTETS));
            octets[1].take((measure, at), &meter, &count(TX_OCTETS));
        }
    }
    let [received, sent] = octets;
    Octets { counted: received.counted + sent.counted, ..received }.are_told();
    hits.iter().for_each(Hits::are_enough);
}

/// In seconds.
const SMOOTHING: f64 = 1.5;

/// libpcap hands packets over by the block: whole packets fill one in little time.
const CONFIGURATION: &str = "\
daemonize: false
pcap_interface: eth0
snaplen: 1600
plugins: sfprobe[x]
sfprobe_receiver[x]: 127.0.0.1:6343
sfprobe_agentip[x]: 10.0.0.1
sampling_rate[x]: 20
";
