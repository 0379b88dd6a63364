//! Our own agent: a data source an interface, both directions, a pool that counts packets, counters as often as one likes.

use std::thread::sleep;
use std::time::{Duration, Instant};

use weir_testbed::network;

use super::meter::{RX_OCTETS, RX_PACKETS, TX_OCTETS, TX_PACKETS};
use super::{ALL_LOOKS, Analyser, Count, Hits, LOOKS, Meter, Octets, Started, traffic, weir, whole_frames};

#[test]
fn flows_come() {
    compare(false);
}

/// Looks for flows, or compares rates.
pub(super) fn compare(rates: bool) {
    let Some(iperf3) = weir_testbed::program("iperf3") else { return };
    let Some(hosts) = network::cable(1500) else { return };
    let [told, other] = &hosts;
    hosts.iter().for_each(whole_frames);
    let (analyser, meter) = (Analyser::start(&told.ns), Meter::start(&told.ns));
    analyser.define_senders(SMOOTHING);
    let _traffic = [traffic(&iperf3, other, told, "40M", "1400"), traffic(&iperf3, told, other, "16M", "1400")];

    let flags = ["sflow", "agent", "--to", "127.0.0.1", "--agent", "10.0.0.1", "--polling", "2s", "--sampling", "20"];
    let _agent = told.run(|| Started::ready(weir(&flags)));
    if !rates {
        return analyser.await_senders(&["10.0.0.1", "10.0.0.2"]);
    }
    let count = |column| Count::Column { interface: "eth0", column };
    let mut hits = [Hits::new("10.0.0.1", count(TX_PACKETS)), Hits::new("10.0.0.2", count(RX_PACKETS))];
    sleep(Duration::from_secs_f64(5.0 * SMOOTHING));

    let (mut octets, began) = ([Octets::default(), Octets::default()], Instant::now());
    while hits[0].of < LOOKS || octets.iter().any(|octets| octets.rates < 5) {
        assert!(began.elapsed() < ALL_LOOKS, "no rates: {}", analyser.get("/dump/ALL/ALL/json"));
        sleep(Duration::from_millis(100));
        if began.elapsed().as_secs_f64() > SMOOTHING * f64::from(hits[0].of) && hits[0].of < LOOKS {
            hits.iter_mut().for_each(|hits| hits.check(&analyser, &meter, SMOOTHING));
        }
        for (octets, (metric, column)) in octets.iter_mut().zip([("ifinoctets", RX_OCTETS), ("ifoutoctets", TX_OCTETS)])
        {
            let Some((answer, at)) = analyser.dated(&format!("/dump/ALL/{metric}/json")) else { continue };
            if let Some(measure) = answer.get(0) {
                octets.take((measure, at), &meter, &count(column));
            }
        }
    }
    octets.iter().for_each(Octets::are_told);
    hits.iter().for_each(Hits::are_enough);
}

/// In seconds.
const SMOOTHING: f64 = 1.0;
