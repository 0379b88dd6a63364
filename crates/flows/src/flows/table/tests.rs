use std::collections::HashMap;

use weir_testbed::random::Source;

use super::super::decay::Clock;
use super::*;

fn update(key: &[u8], amount: f64, now: f64, clock: &mut Clock) -> impl Fn(&mut Table, usize) {
    let (at, key) = (clock.advance(now), key.to_vec());
    move |table, limit| {
        add(table, &Update { source: 1, key: Key::new(&key), long: &key, amount, further: &[], now, at }, limit);
    }
}

fn add(table: &mut Table, update: &Update<'_>, limit: usize) {
    let hash = table.hash(update.source, update.key, update.long);
    table.add(hash, table.guess(hash), update, limit);
}

fn sums(table: &Table, at: &Instant) -> HashMap<Vec<u8>, f64> {
    let places = (0..table.places()).filter_map(|place| Some((table.key(place).to_vec(), table.sum(place, at)?.0)));
    places.collect()
}

#[test]
fn sums_are_those_of_a_slow_way() {
    // 300 keys of any length, times across several epochs.
    let mut source = Source::drawn();
    let (mut clock, mut table) = (Clock::new(1.0, 0.0), Table::new(0, 1e9, Telling::Never));
    let mut all: Vec<(Vec<u8>, f64, f64)> = Vec::new();
    let mut now = 0.0;
    for _ in 0..5000 {
        now += source.exponential(0.1);
        let number = source.number(0..300);
        let key = number.to_be_bytes().repeat(1 + number as usize % 8);
        let amount = source.uniform() * 1500.0;
        update(&key, amount, now, &mut clock)(&mut table, 1000);
        all.push((key, amount, now));
    }
    let at = clock.instant(now);
    let found = sums(&table, &at);
    let mut expected: HashMap<Vec<u8>, f64> = HashMap::new();
    for (key, amount, then) in all {
        *expected.entry(key).or_default() += amount * (then - now).exp();
    }
    assert_eq!(found.len(), expected.len());
    for (key, sum) in expected {
        let seen = found[&key] / at.weight;
        assert!((seen - sum).abs() <= 1e-9 * sum.max(1e-60), "{key:?}: {seen}, not {sum}");
    }
}

#[test]
fn a_heavy_flow_is_never_pushed_out_by_small_ones() {
    const LIMIT: usize = 100;
    let mut source = Source::drawn();
    let (mut clock, mut table) = (Clock::new(2.0, 0.0), Table::new(0, 60.0, Telling::Never));
    for round in 0..100_000u32 {
        let now = f64::from(round) / 10_000.0;
        // Ten flows with a third of the packets each of 1,500 bytes, and 66,000 flows of one small packet.
        if source.uniform() < 0.3 {
            update(&[b'h', source.number(0..10) as u8], 1500.0, now, &mut clock)(&mut table, LIMIT);
        } else {
            update(&round.to_be_bytes(), 64.0, now, &mut clock)(&mut table, LIMIT);
        }
        assert!(table.len() <= LIMIT);
    }
    let at = clock.instant(10.0);
    let found = sums(&table, &at);
    for heavy in 0..10 {
        // 300 packets a second and t = 2 s: 1,500 x 300 x 2, less what came before it was let in.
        let sum = found[&vec![b'h', heavy]] / at.weight;
        assert!((600_000.0..1_200_000.0).contains(&sum), "{heavy}: {sum}");
    }
    assert!(table.evicted > 1000, "{}", table.evicted);
}

#[test]
fn the_next_flow_is_served_after_more_than_the_table_holds() {
    // Ten generations of a hundred flows, each silent when the next one comes.
    let (mut clock, mut table) = (Clock::new(1.0, 0.0), Table::new(0, 5.0, Telling::Never));
    for generation in 0..10u8 {
        for step in 0..1000u16 {
            let now = f64::from(generation) * 10.0 + f64::from(step) / 200.0;
            update(&[generation, (step % 100) as u8], 1.0, now, &mut clock)(&mut table, 100);
        }
        let found = sums(&table, &clock.instant(f64::from(generation) * 10.0 + 5.0));
        assert_eq!(found.keys().filter(|key| key[0] == generation).count(), 100, "generation {generation}");
    }
}

#[test]
fn silent_flows_expire_a_few_at_a_time() {
    let (mut clock, mut table) = (Clock::new(1.0, 0.0), Table::new(0, 5.0, Telling::Never));
    for key in 0..1024u16 {
        update(&key.to_be_bytes(), 1.0, 0.0, &mut clock)(&mut table, 10_000);
    }
    assert_eq!(table.len(), 1024);
    table.expire(5.0, 1024);
    assert_eq!(table.len(), 1024, "not yet");
    for rest in (0..1024).rev().step_by(128) {
        table.expire(5.2, 128);
        assert_eq!(table.len(), rest - 127);
    }
}

#[test]
fn flows_are_told_of() {
    let tell = |telling, times: &[f64]| {
        let (mut clock, mut table) = (Clock::new(1.0, 0.0), Table::new(0, 10.0, telling));
        for &now in times {
            update(b"flow", 100.0, now, &mut clock)(&mut table, 10);
        }
        table.expire(100.0, 100);
        let told = table.take_told();
        assert!(table.take_told().is_empty());
        told.into_iter().map(|told| (told.first, told.last, told.total)).collect::<Vec<_>>()
    };
    assert_eq!(tell(Telling::Never, &[1.0, 2.0]), []);
    assert_eq!(tell(Telling::AtStart, &[1.0, 2.0]), [(1.0, 1.0, 100.0)]);
    assert_eq!(tell(Telling::AtEnd, &[1.0, 2.0]), [(1.0, 2.0, 200.0)]);
    assert_eq!(tell(Telling::AtEnd, &[1.07]), [(1.07, 1.07, 100.0)]);
    // The first packet after the active timeout begins the next record.
    assert_eq!(tell(Telling::AtEnd, &[1.0, 6.0, 11.0, 12.0]), [(1.0, 6.0, 200.0), (11.0, 12.0, 200.0)]);
    assert_eq!(tell(Telling::AtEnd, &[1.0, 11.0]), [(1.0, 1.0, 100.0), (11.0, 11.0, 100.0)]);
}

#[test]
fn tellings_that_nobody_fetches_are_bounded() {
    let (mut clock, mut table) = (Clock::new(1.0, 0.0), Table::new(0, 10.0, Telling::AtStart));
    for key in 0..MAX_TOLD as u32 + 7 {
        update(&key.to_be_bytes(), 1.0, 0.0, &mut clock)(&mut table, 100_000);
    }
    assert_eq!(table.take_told().len(), MAX_TOLD);
}

#[test]
fn data_sources_that_are_gone_take_their_flows_with_them() {
    let (mut clock, mut table) = (Clock::new(1.0, 0.0), Table::new(1, 60.0, Telling::Never));
    for source in 0..10 {
        let at = clock.advance(1.0);
        add(
            &mut table,
            &Update { source, key: Key::new(b"k"), long: b"k", amount: 1.0, further: &[2.0], now: 1.0, at },
            100,
        );
    }
    table.forget(|source| source % 2 == 0);
    assert_eq!(table.len(), 5);
    let at = clock.instant(1.0);
    for place in 0..table.places() {
        if let Some((sum, source)) = table.sum(place, &at) {
            assert!(source % 2 == 1);
            assert!((table.further(place, 0, &at) / sum - 2.0).abs() < 1e-12);
        }
    }
}
