use proptest::prelude::*;

use super::super::Plan;
use super::*;

const SECOND: Nanos = 1_000_000_000;

#[test]
fn without_burst_packets_are_spaced_evenly() {
    let mut shaper = shaper(8_000_000, 0, QueueLimit::Unlimited);
    let releases = [1000, 1000, 500, 1000].map(|bytes| shaper.offer(0, bytes));
    assert_eq!(releases, [Some(0), Some(1_000_000), Some(2_000_000), Some(2_500_000)]);
}

#[test]
fn burst_leaves_at_once() {
    let mut shaper = shaper(8_000_000, 3000, QueueLimit::Unlimited);
    let releases = [1000; 5].map(|bytes| shaper.offer(0, bytes));
    assert_eq!(releases, [Some(0), Some(0), Some(0), Some(1_000_000), Some(2_000_000)]);
    assert_eq!(shaper.offer(SECOND, 3000), Some(SECOND), "full again");
}

#[test]
fn packet_larger_than_the_bucket_leaves_it_in_debt() {
    let mut shaper = shaper(8_000_000, 1000, QueueLimit::Unlimited);
    assert_eq!(shaper.offer(0, 3000), Some(0));
    assert_eq!(shaper.offer(0, 1000), Some(3_000_000), "2 ms of debt, 1 ms for its own bytes");
}

#[test]
fn packet_being_sent_takes_no_room() {
    for limit in [QueueLimit::Packets(1), QueueLimit::Bytes(1999)] {
        let mut shaper = shaper(8_000_000, 0, limit);
        let releases = [0, 0, 0, 1_000_000].map(|now| shaper.offer(now, 1000));
        assert_eq!(releases, [Some(0), Some(1_000_000), None, Some(2_000_000)], "{limit:?}");
    }
}

#[test]
fn what_need_not_wait_needs_no_room() {
    let mut shaper = shaper(8_000_000, 0, QueueLimit::Bytes(10));
    assert_eq!(shaper.offer(0, 1000), Some(0));
    assert_eq!(shaper.offer(999_999, 1000), None);
    assert_eq!(shaper.offer(1_000_000, 1000), Some(1_000_000));
}

#[test]
fn waiting_counts_what_has_not_left() {
    let mut shaper = shaper(8_000_000, 0, QueueLimit::Unlimited);
    for bytes in [1000, 1000, 500] {
        shaper.offer(0, bytes);
    }
    assert_eq!(shaper.waiting(0), Waiting { packets: 2, bytes: 1500 });
    assert_eq!(shaper.waiting(1_000_000), Waiting { packets: 1, bytes: 500 });
    assert_eq!(shaper.waiting(2_000_000), Waiting::default());
}

/// A rate that divides nothing, for 5 hours: each packet leaves in the very nanosecond in which it should.
#[test]
fn rate_is_exact_for_hours() {
    const RATE: u64 = 999_983;
    for burst in [0, 15_000] {
        let mut shaper = shaper(RATE, burst, QueueLimit::Unlimited);
        let free = u128::from(burst / 1500).saturating_sub(1);
        for packet in 0..1_500_000u128 {
            let paced = packet.saturating_sub(free);
            let expected = (paced * 1500 * 8 * u128::from(SECOND)).div_ceil(u128::from(RATE));
            // Arrives in time, but far from all at once: what waits stays small.
            let arrival = expected.saturating_sub(40_000_000) as Nanos;
            assert_eq!(shaper.offer(arrival, 1500), Some(expected as Nanos), "packet {packet}, burst {burst}");
        }
    }
}

proptest! {
    /// Over every window of releases: at most burst + rate x window + a packet. A window counts both its ends, as
    /// releases are whole nanoseconds.
    #[test]
    fn never_faster_than_the_rate(
        rate in any_rate(), burst in any_burst(), arrivals in any_arrivals(), limit in any_limit(),
    ) {
        let sent = run(rate, burst, limit, &arrivals);
        for (first, &(start, _)) in sent.iter().enumerate() {
            let mut bytes = 0;
            for &(end, size) in &sent[first..] {
                bytes += u128::from(size);
                let allowed = u128::from(burst) * BIT_NANOS + work(rate, end - start + 1) + u128::from(size) * BIT_NANOS;
                prop_assert!(bytes * BIT_NANOS <= allowed);
            }
        }
    }

    /// While something waits, over every window: at least rate x window - a packet.
    #[test]
    fn never_slower_than_the_rate(
        rate in any_rate(), burst in any_burst(), sizes in prop::collection::vec(1..=65_535u32, 2..60),
    ) {
        let arrivals: Vec<_> = sizes.iter().map(|&size| (0, size)).collect();
        let sent = run(rate, burst, QueueLimit::Unlimited, &arrivals);
        let largest = u128::from(*sizes.iter().max().expect("not empty"));
        for (first, &(start, _)) in sent.iter().enumerate() {
            let mut bytes = 0;
            for &(end, size) in &sent[first..] {
                // The window ends just before this packet leaves.
                let due = work(rate, (end - start).saturating_sub(1));
                prop_assert!((bytes + largest) * BIT_NANOS >= due);
                bytes += u128::from(size);
            }
        }
    }

    /// The same as filling a bucket with tokens, in fractions of which nothing is ever lost.
    #[test]
    fn agrees_with_a_bucket_of_tokens(rate in any_rate(), burst in any_burst(), arrivals in any_arrivals()) {
        // Tokens in bit nanoseconds per second times the rate, so that the time a packet waits is whole.
        let (mut tokens, mut at) = (i128::from(burst) * 8_000_000_000, 0i128);
        let depth = tokens;
        let scale = i128::from(rate);
        let sent = run(rate, burst, QueueLimit::Unlimited, &arrivals);
        for (&(arrival, size), &(release, _)) in arrivals.iter().zip(&sent) {
            // `at` counts in 1/rate nanoseconds.
            let start = at.max(i128::from(arrival) * scale);
            tokens = (tokens + (start - at)).min(depth);
            let needed = (i128::from(size) * 8_000_000_000).min(depth);
            let wait = (needed - tokens).max(0);
            at = start + wait;
            tokens += wait - i128::from(size) * 8_000_000_000;
            prop_assert_eq!(i128::from(release), (at + scale - 1) / scale);
        }
    }

    /// What waits stays within the limit, counted from the releases alone.
    #[test]
    fn queue_never_holds_more_than_its_limit(
        rate in any_rate(), burst in any_burst(), arrivals in any_arrivals(), limit in any_limit(),
    ) {
        let mut shaper = shaper(rate, burst, limit);
        let mut accepted: Vec<(Nanos, u32)> = Vec::new();
        for &(now, size) in &arrivals {
            let before = still(&accepted, now);
            let release = shaper.offer(now, size);
            accepted.extend(release.map(|release| (release, size)));
            let after = still(&accepted, now);
            prop_assert_eq!(after, shaper.waiting(now));
            let refused = release.is_none();
            match limit {
                QueueLimit::Unlimited => prop_assert!(!refused),
                QueueLimit::Packets(max) => {
                    prop_assert!(after.packets <= max);
                    prop_assert!(!refused || before.packets == max);
                }
                QueueLimit::Bytes(max) => {
                    prop_assert!(after.bytes <= max);
                    prop_assert!(!refused || before.bytes + u64::from(size) > max);
                }
            }
        }
    }

    #[test]
    fn keeps_order(rate in any_rate(), burst in any_burst(), arrivals in any_arrivals(), limit in any_limit()) {
        prop_assert!(run(rate, burst, limit, &arrivals).is_sorted_by_key(|&(release, _)| release));
    }

    #[test]
    fn survives_any_number(
        rate in any::<u64>(), burst in any::<u64>(),
        mut arrivals in prop::collection::vec((any::<u64>(), any::<u32>()), 1..20),
    ) {
        arrivals.sort_unstable();
        for (release, arrival) in run(rate, burst, QueueLimit::Unlimited, &arrivals).iter().zip(&arrivals) {
            prop_assert!(release.0 >= arrival.0);
        }
    }
}

/// Bits that the rate carries in a nanosecond, times a second over a nanosecond.
fn work(rate: u64, window: Nanos) -> u128 {
    u128::from(rate) * u128::from(window)
}

/// A byte, in the same unit.
const BIT_NANOS: u128 = 8 * SECOND as u128;

/// A shaper with a timetable in which nothing changes.
struct Steady(Shaper, Timetable);

impl Steady {
    fn offer(&mut self, now: Nanos, bytes: u32) -> Option<Nanos> {
        self.0.offer(&self.1, now, bytes)
    }

    fn waiting(&self, time: Nanos) -> Waiting {
        self.0.waiting(time)
    }
}

fn shaper(bits_per_second: u64, burst_bytes: u64, limit: QueueLimit) -> Steady {
    let capacities = [Capacity::Rate(Rate { bits_per_second, burst_bytes })].into();
    let (_, timetable) = Timetable::new(&Plan::default());
    Steady(Shaper::new(capacities, limit).expect("there is a rate"), timetable)
}

/// Releases and sizes of what was not dropped.
fn run(rate: u64, burst: u64, limit: QueueLimit, arrivals: &[(Nanos, u32)]) -> Vec<(Nanos, u32)> {
    let mut shaper = shaper(rate, burst, limit);
    arrivals.iter().filter_map(|&(now, size)| Some((shaper.offer(now, size)?, size))).collect()
}

fn still(accepted: &[(Nanos, u32)], now: Nanos) -> Waiting {
    let waiting = accepted.iter().filter(|&&(release, _)| release > now);
    let bytes = waiting.clone().map(|&(_, size)| u64::from(size)).sum();
    Waiting { packets: waiting.count() as u64, bytes }
}

fn any_rate() -> impl Strategy<Value = u64> {
    prop_oneof![1..20u64, 1_000..10_000_000u64, 10_000_000..100_000_000_000u64]
}

fn any_burst() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..200_000u64]
}

fn any_limit() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        Just(QueueLimit::Unlimited),
        (0..10u64).prop_map(QueueLimit::Packets),
        (0..200_000u64).prop_map(QueueLimit::Bytes),
    ]
}

/// Arrival times, ascending, and sizes. Gaps from none to seconds.
fn any_arrivals() -> impl Strategy<Value = Vec<(Nanos, u32)>> {
    let gap = prop_oneof![Just(0), 1..100_000u64, 1..SECOND];
    let size = prop_oneof![Just(1500), 1..=65_535u32];
    prop::collection::vec((gap, size), 1..60).prop_map(|steps| {
        let arrive = |now: &mut Nanos, (gap, size)| {
            *now += gap;
            Some((*now, size))
        };
        steps.into_iter().scan(0, arrive).collect()
    })
}
