//! Never a false rate: what agents do to their totals, and what is made of it.

use super::super::{Counters, Metric, Missed, Number, Reading, Reason, Reasons};
use super::wire::{Interface, datagram, sample, words};
use crate::agents::{Moment, SECOND};

const GIGABIT: u64 = 1_000_000_000;
const LINK: Interface =
    Interface { speed: GIGABIT, status: 3, in_octets: 0, in_packets: 0, in_errors: 0, out_octets: 0, out_packets: 0 };

/// A data source that is told totals.
struct Told {
    counters: Counters,
    reasons: Reasons,
    sequence: u32,
    now: Moment,
}

impl Told {
    fn new() -> Self {
        let now = Moment { now: 1_000 * SECOND, uptime: 500_000, clock: 1, epoch: 0, late: false };
        Self { counters: Counters::default(), reasons: Reasons::default(), sequence: 1, now }
    }

    fn wait(&mut self, seconds: u64) {
        self.now.now += seconds * SECOND;
        self.now.uptime = self.now.uptime.wrapping_add(seconds as u32 * 1_000);
    }

    fn tell(&mut self, records: &[(u32, Vec<u8>)]) {
        let datagram = datagram(self.sequence, records);
        self.counters.sample(self.now, &sample(&datagram), &mut self.reasons);
        self.sequence = self.sequence.wrapping_add(1);
    }

    fn link(&mut self, link: Interface) {
        self.tell(&[(1, link.body())]);
    }

    fn read(&self, name: &str) -> Result<Reading<'_>, Reason> {
        self.counters.read(Metric::find(name).unwrap(), self.now.now).unwrap()
    }

    fn number(&self, name: &str) -> Result<f64, Reason> {
        self.read(name).map(|reading| match reading.value {
            Number::Number(number) => number,
            other => panic!("{other:?}"),
        })
    }
}

/// Traffic of so many bytes and packets.
fn more(link: Interface, octets: u64, packets: u32) -> Interface {
    let (in_octets, in_packets) = (link.in_octets.wrapping_add(octets), link.in_packets.wrapping_add(packets));
    Interface { in_octets, in_packets, ..link }
}

#[test]
fn rates_are_differences_over_the_time_between() {
    let mut told = Told::new();
    told.link(LINK);
    assert_eq!(told.number("ifinoctets"), Err(Reason::First));
    told.wait(20);
    told.link(more(LINK, 500_000_000, 1_000_000));
    let reading = told.read("ifinoctets").unwrap();
    assert_eq!((reading.value, reading.interval), (Number::Number(25e6), 20.0));
    assert_eq!(told.number("ifinpkts"), Ok(50_000.0));
    assert_eq!(told.number("ifinutilization"), Ok(20.0));
    assert_eq!(told.number("ifspeed"), Ok(1e9));
    assert_eq!(told.number("ifoutoctets"), Ok(0.0));
    assert_eq!(told.read("ifoperstatus").unwrap().value, Number::Name("up"));
    assert_eq!(told.read("ifdirection").unwrap().value, Number::Name("full-duplex"));
}

#[test]
fn totals_of_32_and_64_bits_wrap() {
    let mut told = Told::new();
    let link = Interface { in_octets: u64::MAX - 99_999, in_packets: u32::MAX - 499, ..LINK };
    told.link(link);
    told.wait(10);
    told.link(more(link, 1_000_000, 2_000));
    assert_eq!((told.number("ifinoctets"), told.number("ifinpkts")), (Ok(100_000.0), Ok(200.0)));
}

#[test]
fn the_uptime_wraps_after_49_days() {
    let mut told = Told::new();
    told.now.uptime = u32::MAX - 5_000;
    told.link(LINK);
    told.wait(10);
    told.link(more(LINK, 1_000_000, 1_000));
    assert_eq!(told.number("ifinoctets"), Ok(100_000.0));
}

/// What a lost datagram would have told, the next tells, over the whole time.
#[test]
fn lost_samples_make_the_interval_longer_and_no_rate_wrong() {
    let mut told = Told::new();
    told.link(LINK);
    told.wait(60);
    told.sequence += 2;
    told.link(more(LINK, 60_000_000, 60_000));
    assert_eq!((told.number("ifinoctets"), told.read("ifinoctets").unwrap().interval), (Ok(1e6), 60.0));
    assert_eq!((told.reasons.of(Reason::Lost), told.counters.polling()), (2, Some(60.0)));
}

/// The datagram waits 4 s on the way: the agent's clock says what its totals mean.
#[test]
fn waiting_on_the_way_is_in_no_rate() {
    let mut told = Told::new();
    told.link(LINK);
    told.wait(20);
    told.now.now += 4 * SECOND;
    told.link(more(LINK, 20_000_000, 20_000));
    assert_eq!(told.number("ifinoctets"), Ok(1e6));
}

#[test]
fn where_the_uptime_is_no_clock_the_arrival_is() {
    for (clock, uptime) in [(0, 500_000), (0, 502_000), (2, 520_000), (2, 1_000)] {
        let mut told = Told::new();
        told.link(LINK);
        told.now = Moment { now: told.now.now + 20 * SECOND, uptime, clock, ..told.now };
        told.link(more(LINK, 20_000_000, 20_000));
        let reading = told.read("ifinoctets").unwrap();
        assert_eq!((reading.value, reading.interval), (Number::Number(1e6), 20.0));
    }
}

#[test]
fn a_restart_gives_no_rate_and_the_next_sample_does() {
    let mut told = Told::new();
    told.link(more(LINK, 1 << 40, 1 << 30));
    told.wait(20);
    told.now = Moment { epoch: 1, clock: 2, uptime: 3_000, ..told.now };
    told.sequence = 1;
    told.link(more(LINK, 1_000, 10));
    assert_eq!(told.number("ifinoctets"), Err(Reason::Restart));
    told.wait(20);
    told.link(more(LINK, 21_000, 30));
    assert_eq!(told.number("ifinoctets"), Ok(1_000.0));
}

/// Agents that number counter samples by their place in the datagram: rates do not come and go.
#[test]
fn numbers_of_counter_samples_decide_nothing() {
    let mut told = Told::new();
    for (turn, number) in [800, 3, 1, 1, 5, 0, u32::MAX, 2].into_iter().enumerate() {
        told.sequence = number;
        told.link(more(LINK, 20_000 * turn as u64, 20 * turn as u32));
        assert_eq!(told.number("ifinoctets"), if turn == 0 { Err(Reason::First) } else { Ok(1_000.0) }, "{turn}");
        assert_eq!(told.counters.polling(), (turn > 0).then_some(20.0));
        told.wait(20);
    }
}

#[test]
fn totals_that_begin_again_without_a_word_are_a_reset() {
    let mut told = Told::new();
    told.link(more(LINK, 3_000_000_000, 2_000_000));
    told.wait(20);
    told.link(more(LINK, 5_000, 50));
    assert_eq!((told.number("ifinoctets"), told.number("ifinpkts")), (Err(Reason::Reset), Err(Reason::Reset)));
    // One total alone, in a record without octets.
    let mut errors = vec![0; 13];
    errors[1] = 500;
    told.tell(&[(2, words(&errors))]);
    told.wait(20);
    told.tell(&[(2, words(&[0; 13]))]);
    assert_eq!(told.number("eth_fcserrors"), Err(Reason::Reset));
}

/// A tap says 10 Mbit/s and carries a gigabit, or a gauge of 32 bits is full: octets are right, and a share of that is none.
#[test]
fn what_an_interface_counts_goes_before_its_speed() {
    for (speed, known) in [
        (10_000_000, Err(Reason::Contradicted)),
        (u64::from(u32::MAX), Err(Reason::Unknown)),
        (0, Err(Reason::Unknown)),
        (10 * GIGABIT, Ok(1e10)),
    ] {
        let mut told = Told::new();
        for step in 0..5 {
            told.link(more(Interface { speed, ..LINK }, 2_000_000_000 * step, 2_000_000 * step as u32));
            told.wait(20);
        }
        assert_eq!(told.number("ifinoctets"), Ok(1e8));
        assert_eq!(told.number("ifspeed"), known);
        assert_eq!(told.number("ifinutilization"), known.map(|speed| 100.0 * 8e8 / speed));
    }
}

/// Another interface under an index, or a total that was read half: one reading says nothing of the speed, and structures without one have none.
#[test]
fn a_single_jump_contradicts_no_speed() {
    let mut told = Told::new();
    for step in 0..4 {
        let jumped = if step >= 2 { 1_000_000_000_000 } else { 0 };
        let link = more(LINK, 2_000_000_000 * step + jumped, 2_000_000 * step as u32);
        told.tell(&[(1, link.body()), (1001, words(&[5, 1_000_000_000, 100, 200, 300]))]);
        told.wait(20);
    }
    assert_eq!(told.number("ifinutilization"), Ok(80.0));
}

/// A 100 Gbit/s port may send 2^32 of the shortest frames in 29 s.
#[test]
fn packets_that_may_have_wrapped_twice_have_no_rate() {
    let mut told = Told::new();
    let link = Interface { speed: 100 * GIGABIT, ..LINK };
    told.link(link);
    told.wait(60);
    told.link(more(link, 500_000_000_000, 5_000));
    assert_eq!(
        (told.number("ifinpkts"), told.number("ifinoctets")),
        (Err(Reason::Ambiguous), Ok(500e9 / 60.0f64).map(|rate| rate as f32 as f64))
    );
    told.wait(20);
    told.link(more(link, 520_000_000_000, 20_005_000));
    assert_eq!(told.number("ifinpkts"), Ok(1e6));
}

#[test]
fn what_the_agent_does_not_count_is_unknown() {
    let mut told = Told::new();
    let link = Interface { in_errors: u32::MAX, speed: u64::MAX, ..LINK };
    told.link(link);
    told.wait(20);
    told.link(more(link, 20_000, 20));
    assert_eq!((told.number("ifinerrors"), told.number("ifinoctets")), (Err(Reason::Unknown), Ok(1_000.0)));
    assert_eq!((told.number("ifspeed"), told.number("ifinutilization")), (Err(Reason::Unknown), Err(Reason::Unknown)));
}

#[test]
fn what_was_overtaken_and_what_comes_at_once_changes_nothing() {
    let mut told = Told::new();
    told.link(LINK);
    told.wait(20);
    told.sequence = 3;
    told.link(more(LINK, 20_000, 20));
    (told.sequence, told.now.late) = (2, true);
    told.link(more(LINK, 7, 1));
    (told.sequence, told.now.late) = (4, false);
    told.link(more(LINK, 20_001, 21));
    assert_eq!(told.number("ifinoctets"), Ok(1_000.0));
    assert_eq!((told.reasons.of(Reason::Late), told.reasons.of(Reason::TooSoon)), (1, 1));
}

/// The next counters are 20 s away: those whose datagram its neighbours overtook, which had none, are the newest all the same.
#[test]
fn what_only_its_datagram_was_overtaken_with_is_taken() {
    // Of an agent that counts its samples, and of one that does not.
    for counts in [1_u32, 0] {
        let mut told = Told::new();
        told.link(LINK);
        for (turn, late) in [(1_u32, true), (2, false), (3, true), (4, true)] {
            told.sequence = 1 + turn * counts;
            told.wait(20);
            // It comes 2 s after it was sent.
            let sent = told.now;
            told.now = Moment { now: sent.now + u64::from(late) * 2 * SECOND, late, ..sent };
            told.link(more(LINK, u64::from(turn) * 20_000, turn * 20));
            let reading = told.read("ifinoctets").unwrap();
            let known = (reading.value, reading.interval, reading.age);
            assert_eq!(known, (Number::Number(1_000.0), 20.0, 0), "{turn}");
            assert_eq!(told.counters.blocks()[0].moment, told.now, "whoever compares them with samples finds them");
            told.now = sent;
        }
        assert_eq!((told.counters.missed(), told.reasons.of(Reason::Late)), (Missed::default(), 0));
    }
}

/// Where its clock does not tell when an overtaken sample was made, or says that it was before the last one, there is no rate of it.
#[test]
fn what_was_overtaken_and_may_be_older_is_not_taken() {
    for (clock, uptime) in [(0, 520_000), (1, 499_000), (2, 520_000)] {
        let mut told = Told::new();
        told.link(LINK);
        told.now = Moment { now: told.now.now + 20 * SECOND, uptime, clock, late: true, ..told.now };
        told.link(more(LINK, 20_000, 20));
        assert_eq!((told.number("ifinoctets"), told.reasons.of(Reason::Late)), (Err(Reason::First), 1));
    }
}

#[test]
fn silence_makes_stale_and_the_number_tells_its_age() {
    let mut told = Told::new();
    for step in 0..4 {
        told.link(more(LINK, step * 10_000, 10));
        told.wait(10);
    }
    let reading = told.read("ifinoctets").unwrap();
    assert_eq!((reading.stale, reading.age, told.counters.polling()), (false, 10 * SECOND, Some(10.0)));
    told.wait(21);
    assert!(told.read("ifinoctets").unwrap().stale);
}

/// What sequence numbers of samples tell: gaps, what came late after all, and the same twice at one instant.
#[test]
fn what_did_not_come_as_it_should_is_counted() {
    let mut told = Told::new();
    let send = |told: &mut Told, number: u32, late: bool| {
        (told.sequence, told.now.late) = (number, late);
        told.link(LINK);
        told.wait(20);
    };
    for number in [1, 2, 5] {
        send(&mut told, number, false);
    }
    // It was sent before the one that is here.
    told.now.uptime -= 30_000;
    send(&mut told, 4, true);
    told.now.uptime += 30_000;
    send(&mut told, 6, false);
    assert_eq!(told.counters.missed(), Missed { lost: 1, duplicates: 0, late: 1 });
    // A datagram may be late, and its sample the newest of its source all the same.
    send(&mut told, 8, true);
    send(&mut told, 9, false);
    assert_eq!(told.counters.missed(), Missed { lost: 2, duplicates: 0, late: 1 });
    for _ in 0..2 {
        told.sequence = 10;
        told.link(LINK);
    }
    assert_eq!(told.counters.missed(), Missed { lost: 2, duplicates: 1, late: 1 });
}

/// Two devices that tell of a source under one address, against one that began anew as another stream.
#[test]
fn streams_that_go_on_beside_one_another_are_told_from_those_that_follow() {
    let tell = |told: &mut Told, at: u64| {
        told.now.now = (2_000 + at) * SECOND;
        told.now.uptime = at as u32 * 1_000;
        told.link(LINK);
    };
    let (mut one, mut other, mut later) = (Told::new(), Told::new(), Told::new());
    for at in [0, 20, 40] {
        tell(&mut one, at);
        tell(&mut other, at + 7);
        tell(&mut later, at + 47);
    }
    assert!(Counters::are_shared(&[&one.counters, &other.counters]));
    assert!(!Counters::are_shared(&[&one.counters, &later.counters]));
}

/// An interface that lies about its speed: its rate is true, a share of a speed that is none would be a false alarm.
#[test]
fn no_utilization_is_beyond_what_a_line_carries() {
    let mut told = Told::new();
    let link = Interface { speed: GIGABIT / 100, ..LINK };
    for step in 0..6 {
        told.link(more(link, step * 200_000_000, step as u32 * 200_000));
        told.wait(20);
    }
    assert_eq!((told.number("ifinoctets"), told.number("ifinutilization")), (Ok(1e7), Err(Reason::Contradicted)));
    assert_eq!(told.number("ifoututilization"), Err(Reason::Contradicted));
    // Totals are read a little before or after they are told of.
    let mut told = Told::new();
    told.link(LINK);
    told.wait(20);
    told.link(more(LINK, 2_600_000_000, 5_000_000));
    assert_eq!(told.number("ifinutilization"), Ok(104.0));
}

/// Agents that do not count their counter samples.
#[test]
fn a_sequence_that_stands_still_is_none() {
    let mut told = Told::new();
    for step in 0..3 {
        told.sequence = 0;
        told.link(more(LINK, step * 10_000, 10));
        told.wait(10);
    }
    assert_eq!(told.number("ifinoctets"), Ok(1_000.0));
}

/// Processors: 4 of them, 20 s, half idle; newer fields missing.
#[test]
fn shares_of_processors_add_up() {
    let mut told = Told::new();
    let mut cpu = [0u32; 17];
    cpu[0] = 1.5f32.to_bits();
    (cpu[5], cpu[8], cpu[10], cpu[11]) = (4, 100, 200, 300);
    told.tell(&[(2003, words(&cpu))]);
    told.wait(20);
    (cpu[8], cpu[10], cpu[11]) = (100 + 30_000, 200 + 10_000, 300 + 40_000);
    told.tell(&[(2003, words(&cpu))]);
    for (name, value) in
        [("load_one", 1.5), ("cpu_user", 37.5), ("cpu_system", 12.5), ("cpu_idle", 50.0), ("cpu_utilization", 50.0)]
    {
        assert_eq!(told.number(name), Ok(value), "{name}");
    }
}

#[test]
fn queues_of_one_data_source_are_kept_apart() {
    let mut told = Told::new();
    let queue = |index: u32, dropped: u32| {
        let mut queue = [0; 13];
        (queue[0], queue[12]) = (index, dropped);
        (1003, words(&queue))
    };
    told.tell(&[queue(0, 5), queue(1, 500)]);
    told.wait(10);
    told.tell(&[queue(0, 15), queue(1, 700)]);
    let rates: Vec<f64> = told.counters.blocks().iter().map(|block| block.rate(12).unwrap()).collect();
    assert_eq!(rates, [1.0, 20.0]);
    let many: Vec<_> = (0..100).map(|index| queue(index, 0)).collect();
    told.wait(10);
    told.tell(&many);
    assert_eq!((told.counters.blocks().len(), told.reasons.of(Reason::Refused)), (64, 36));
}

#[test]
fn a_record_that_ends_early_costs_the_others_nothing() {
    let mut told = Told::new();
    told.tell(&[(2, words(&[1; 4])), (1, LINK.body()), (4_000, words(&[7; 9]))]);
    told.wait(20);
    told.tell(&[(2, words(&[1; 4])), (1, more(LINK, 20_000, 20).body()), (4_000, words(&[7; 9]))]);
    assert_eq!(told.number("ifinoctets"), Ok(1_000.0));
    assert_eq!((told.number("eth_fcserrors"), told.number("eth_symbolerrors")), (Ok(0.0), Err(Reason::Unknown)));
    assert_eq!(told.reasons.of(Reason::Unreadable), 2);
}
