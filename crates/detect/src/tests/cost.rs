//! What a sample costs. `cargo test --release -p weir-protect detect::tests::cost -- --ignored --nocapture`

use std::hint::black_box;
use std::time::Instant;

use super::*;

fn all_classes() -> Vec<Threshold> {
    Class::ALL.map(|class| Threshold { bits: Some(4e8), learn: true, ..Threshold::packets(class, 40_000.0) }).into()
}

fn packets(random: &mut Source, hosts: u64) -> Vec<Packet> {
    let packet = |random: &mut Source| {
        let target = host(random.number(0..hosts) as u32);
        udp(anybody(random), target, (random.bits() as u16, 443), 60 + random.number(0..1400) as u32)
    };
    (0..65_536).map(|_| packet(random)).collect()
}

#[test]
fn a_sample_allocates_nothing_once_all_is_warm() {
    let mut random = Source::drawn();
    let mut detector = Detector::new(settings(all_classes()));
    let packets = packets(&mut random, 256);
    let mut go = |from: u64, count: u64| {
        let before = sys::allocations();
        for at in 0..count {
            show(&mut detector, (from + at) * 100_000, "10.0.0.1", 10.0, packets[at as usize % packets.len()]);
        }
        let allocated = sys::allocations() - before;
        assert_eq!(standing(&detector.take_findings()), []);
        allocated
    };
    assert!(go(0, 200_000) > 0, "the counter counts");
    assert_eq!(go(200_000, 100_000), 0);
}

#[test]
#[ignore = "a measurement: in release, on a quiet machine"]
fn a_sample() {
    let mut random = Source::drawn();
    let one = vec![Threshold::packets(Class::UdpFlood, 40_000.0)];
    for (what, thresholds, hosts, frames) in [
        ("usual, one threshold, 256 hosts", one.clone(), 256, 1000.0),
        ("usual, one threshold, 65,536 hosts", one.clone(), 65_536, 1000.0),
        ("usual, all classes in packets and bits, learning, 256 hosts", all_classes(), 256, 1000.0),
        ("usual, all classes in packets and bits, learning, 65,536 hosts", all_classes(), 65_536, 1000.0),
        ("a flood of one host, one threshold", one, 1, 100_000.0),
        ("a flood of one host, all classes", all_classes(), 1, 100_000.0),
    ] {
        let mut detector = Detector::new(settings(thresholds));
        let packets = packets(&mut random, hosts);
        let mut best = f64::INFINITY;
        for round in 0..20u64 {
            let begin = Instant::now();
            for at in 0..100_000u64 {
                let time = (round * 100_000 + at) * 100_000;
                show(&mut detector, time, "10.0.0.1", black_box(frames), packets[at as usize % packets.len()]);
            }
            best = best.min(begin.elapsed().as_secs_f64() / 100_000.0);
            detector.tick((round + 1) * 10 * SECOND, 0);
        }
        println!("{what}: {:.0} ns a sample", best * 1e9);
    }
}
