//! Numbered datagrams through the emulator: the right ones arrive, unchanged, when they should.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::sys::socket::{setsockopt, sockopt};
use weir_emulator::datapath::{Emulator, EmulatorSettings};
use weir_emulator::ledger::LinkReport;
use weir_emulator::model::{
    Alteration, Alterations, Distribution, Impairments, Loss, Order, QueueLimit, Rate, Reorder, Variation,
};

use crate::network::{Network, assert_sound, network, settled};

const SIZE: usize = 1000;
/// Between bursts: an ordinary user's socket buffers hold only a few of them.
const PAUSE: Duration = Duration::from_millis(1);

/// What arrived: number, whether the contents were right, when, and how long after it was handed to the kernel.
type Arrival = (u32, bool, Instant, Duration);

/// A datagram whose contents follow from its number.
fn datagram(number: u32) -> [u8; SIZE] {
    let mut state = u64::from(number);
    let mut bytes = [0; SIZE];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    for byte in &mut bytes[4..] {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        *byte = (state >> 56) as u8;
    }
    bytes
}

/// Sends `count` datagrams from a to b, `burst` in one call (UDP_SEGMENT), a pause between calls; returns what arrived
/// until nothing comes any more and nothing waits.
fn send(
    network: &Network,
    to: IpAddr,
    impairments: &Impairments,
    count: u32,
    burst: u32,
    pause: Duration,
) -> (Vec<Arrival>, LinkReport) {
    let emulator = Emulator::spawn(EmulatorSettings::default()).unwrap();
    let link = network.attach(&emulator, impairments, &Impairments::default());
    let source: IpAddr = if to.is_ipv4() { network.a.v4 } else { network.a.v6 };
    // Fixed ports: the losses are those of the flow.
    let receiver = network.b.run(|| UdpSocket::bind((to, 50_000))).unwrap();
    receiver.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let sender = network.a.run(|| UdpSocket::bind((source, 40_000))).unwrap();
    sender.connect(SocketAddr::new(to, 50_000)).unwrap();
    if burst > 1 {
        setsockopt(&sender, sockopt::UdpGsoSegment, &(SIZE as i32)).unwrap();
    }
    // As far as allowed.
    if setsockopt(&receiver, sockopt::RcvBufForce, &(32 << 20)).is_err() {
        setsockopt(&receiver, sockopt::RcvBuf, &(32 << 20)).unwrap();
    }
    std::thread::scope(|scope| {
        let received = scope.spawn(|| {
            let mut arrivals = Vec::new();
            let mut bytes = [0; 2 * SIZE];
            let mut all_left = false;
            loop {
                match receiver.recv(&mut bytes) {
                    Ok(length) => {
                        let number = u32::from_be_bytes(bytes[..4].try_into().unwrap());
                        arrivals.push((number, bytes[..length] == datagram(number), Instant::now(), Duration::ZERO));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        if all_left {
                            return arrivals;
                        }
                        // What left between the last look at the socket and this one is there now.
                        let ledger = emulator.report(link).unwrap().forward.ledger;
                        all_left = ledger.received - ledger.control >= u64::from(count) && ledger.in_flight == 0;
                        receiver.set_nonblocking(all_left).unwrap();
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        });
        let numbers: Vec<u32> = (0..count).collect();
        let mut sent_at = Vec::new();
        for numbers in numbers.chunks(burst as usize) {
            let bytes: Vec<u8> = numbers.iter().flat_map(|&number| datagram(number)).collect();
            sent_at.resize(sent_at.len() + numbers.len(), Instant::now());
            assert_eq!(sender.send(&bytes).unwrap(), bytes.len());
            std::thread::sleep(pause);
        }
        let mut arrivals = received.join().unwrap();
        for arrival in &mut arrivals {
            arrival.3 = arrival.2 - sent_at[arrival.0 as usize];
        }
        let report = settled(&emulator, link, |_| true);
        assert_sound(&report.forward.ledger);
        assert_eq!(report.forward.ledger.received - report.forward.ledger.control, u64::from(count));
        (arrivals, report)
    })
}

fn sorted_numbers(arrivals: &[Arrival]) -> Vec<u32> {
    let mut numbers: Vec<u32> = arrivals.iter().map(|a| a.0).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn both_paths_lose_the_same_segments_and_change_none() {
    lose_the_same(1600);
}

#[test]
#[ignore = "long: 11 s"]
fn both_paths_lose_the_same_of_many_segments() {
    lose_the_same(6400);
}

fn lose_the_same(count: u32) {
    let impairments = Impairments {
        loss: Loss::GilbertElliott { to_bad: 0.02, to_good: 0.3, good: 0.001, bad: 0.9 },
        delay: Duration::from_millis(2),
        rate: Some(Rate { bits_per_second: 800_000_000, burst_bytes: 20_000 }),
        duplicate: 0.01,
        reorder: Some(Reorder { probability: 0.01, by: Duration::from_millis(1) }),
        ..Default::default()
    };
    let mut outcomes = Vec::new();
    for burst in [64, 7, 1] {
        let Some(network) = network() else { return };
        for to in [network.b.v4, network.b.v6] {
            let (arrivals, report) = send(&network, to, &impairments, count, burst, Duration::from_micros(500));
            assert!(arrivals.iter().all(|a| a.1), "contents changed");
            let ledger = report.forward.ledger;
            assert!(ledger.lost > 0 && ledger.duplicated > 0);
            assert_eq!(ledger.delivered - ledger.control, arrivals.len() as u64, "all that left arrived");
            if burst == 64 {
                assert!(ledger.frames_received < u64::from(count) / 32, "super-packets stay together: {ledger:?}");
            }
            let drops = report.forward.drops.into_iter().find(|d| d.flow.protocol == Some(17)).unwrap();
            assert!(drops.complete);
            outcomes.push((burst, to, drops.indexes, sorted_numbers(&arrivals)));
        }
    }
    for version in 0..2 {
        let mut same_version = outcomes.iter().skip(version).step_by(2);
        let first = same_version.next().unwrap();
        for other in same_version {
            let whose = format!("{} {} as {} {}", other.0, other.1, first.0, first.1);
            assert!(other.2 == first.2, "loses the same: {whose}");
            assert!(other.3 == first.3, "delivers the same: {whose}");
        }
        // The list speaks of the datagrams by their place in the flow, which is their number.
        let mut arrived = first.3.clone();
        arrived.dedup();
        let expected: Vec<u32> = (0..count).filter(|&n| first.2.binary_search(&u64::from(n)).is_err()).collect();
        assert_eq!(arrived, expected);
    }
}

#[test]
fn a_planned_list_of_losses_is_kept_to_the_letter() {
    let Some(network) = network() else { return };
    let list = vec![0, 1, 5, 63, 64, 65, 127, 300, 999];
    let impairments = Impairments { loss: Loss::List(list.clone()), ..Default::default() };
    let (arrivals, report) = send(&network, network.b.v4, &impairments, 1000, 40, PAUSE);
    let expected: Vec<u32> = (0..1000).filter(|&n| !list.contains(&u64::from(n))).collect();
    assert_eq!(sorted_numbers(&arrivals), expected);
    assert_eq!(report.forward.drops[0].indexes, list);
    assert_eq!(report.forward.ledger.lost, 9);
}

#[test]
fn corrupted_datagrams_fail_their_checksum() {
    let Some(network) = network() else { return };
    let impairments = Impairments { alterations: Alterations::only(Alteration::Corrupt, 0.1), ..Default::default() };
    for (to, protocol) in [(network.b.v4, "Udp"), (network.b.v6, "Udp6")] {
        for burst in [1, 50] {
            let errors = || network.b.counter(protocol, "InErrors") + network.b.counter(protocol, "NoPorts");
            let before = errors();
            let (arrivals, report) = send(&network, to, &impairments, 1000, burst, PAUSE);
            let corrupted = report.forward.ledger.altered[Alteration::Corrupt];
            assert!(corrupted > 50);
            assert!(arrivals.iter().all(|a| a.1), "a flipped bit went unnoticed");
            assert_eq!(arrivals.len() as u64, 1000 - corrupted);
            assert_eq!(errors() - before, corrupted);
        }
    }
}

/// The time that the whole takes, in times of what it takes at that rate.
fn at_a_rate() -> Option<f64> {
    let network = network()?;
    let rate = Rate { bits_per_second: 100_000_000, burst_bytes: 0 };
    let impairments = Impairments { rate: Some(rate), queue: QueueLimit::Unlimited, ..Default::default() };
    let (arrivals, _) = send(&network, network.b.v4, &impairments, 3200, 64, PAUSE);
    assert_eq!(sorted_numbers(&arrivals), (0..3200).collect::<Vec<_>>());
    let began = arrivals[0].2 - arrivals[0].3;
    // The first of them has not to wait.
    let nominal = f64::from(3199 * (SIZE as u32 + 28) * 8) / 100e6;
    Some((arrivals.last().unwrap().2 - began).as_secs_f64() / nominal)
}

#[test]
fn a_shaped_link_carries_no_more_than_its_rate() {
    let Some(ratio) = at_a_rate() else { return };
    assert!(ratio >= 1.0, "{ratio}");
}

#[test]
#[ignore = "long: 1 s, on a quiet machine"]
fn a_shaped_link_carries_its_rate() {
    let Some(ratio) = at_a_rate() else { return };
    assert!(ratio < 1.02, "{ratio}");
}

#[test]
fn a_full_queue_drops_and_counts() {
    let Some(network) = network() else { return };
    let rate = Rate { bits_per_second: 100_000_000, burst_bytes: 0 };
    let impairments = Impairments { rate: Some(rate), queue: QueueLimit::Packets(100), ..Default::default() };
    let (arrivals, report) = send(&network, network.b.v4, &impairments, 640, 64, PAUSE);
    let ledger = report.forward.ledger;
    assert!(ledger.queue_dropped > 0, "{ledger:?}");
    assert_eq!(arrivals.len() as u64 + ledger.queue_dropped, 640);
}

/// How late packets are in the median: as their receiver sees it, and by the emulator's own account.
fn late_behind_a_delay() -> Option<[Duration; 2]> {
    let network = network()?;
    let delay = Duration::from_micros(5037);
    let impairments = Impairments { delay, ..Default::default() };
    let (arrivals, report) = send(&network, network.b.v4, &impairments, 400, 1, Duration::from_micros(900));
    assert_eq!(arrivals.len(), 400);
    let mut took: Vec<Duration> = arrivals.iter().map(|a| a.3).collect();
    took.sort_unstable();
    assert!(took[0] >= delay, "{:?} is early", took[0]);
    let lateness = &report.forward.lateness;
    assert_eq!(lateness.len(), report.forward.ledger.frames_delivered);
    Some([took[200] - delay, Duration::from_nanos(lateness.value_at_quantile(0.5))])
}

#[test]
fn packets_take_the_delay() {
    late_behind_a_delay();
}

#[test]
#[ignore = "long: 1 s, on a quiet machine"]
fn packets_take_hardly_longer_than_the_delay() {
    let Some(medians) = late_behind_a_delay() else { return };
    assert!(medians.iter().all(|&late| late < Duration::from_millis(1)), "{medians:?}");
}

#[test]
fn variation_reorders_only_where_it_may() {
    let Some(network) = network() else { return };
    for (order, expect_sorted) in [(Order::Keep, true), (Order::Reorder, false)] {
        let distribution = Distribution::Uniform(Duration::from_millis(5));
        let variation = Some(Variation { distribution, order });
        let impairments = Impairments { variation, ..Default::default() };
        let (arrivals, _) = send(&network, network.b.v4, &impairments, 2000, 20, Duration::from_micros(200));
        assert_eq!(sorted_numbers(&arrivals), (0..2000).collect::<Vec<_>>());
        assert_eq!(arrivals.is_sorted_by_key(|a| a.0), expect_sorted, "{order:?}");
    }
}
