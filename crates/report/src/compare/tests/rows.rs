//! Losses of messages that do not come by the clock: how losses come is told by the messages' numbers.

use super::*;

/// Seed of every simulation here.
const SEED: u64 = 23;

/// Messages of a repeat, as in the table of `docs/lab.md`.
const MESSAGES: u64 = 6000;

const BATCHES: u64 = 32;

/// A repeat of 60 s with losses in rows of `row`. Its messages come at random (Poisson's deviation), so that the batches of
/// their rate scatter several times as much as losses do.
fn lossy(source: &mut Source, repeat: u32, loss: f64, row: u64) -> Record {
    let size = |batch: u64| MESSAGES * (batch + 1) / BATCHES - MESSAGES * batch / BATCHES;
    let sizes: Vec<f64> = (0..BATCHES).map(|batch| size(batch) as f64).collect();
    let arrived: Vec<f64> =
        (0..BATCHES).map(|batch| (size(batch) - row * source.binomial(size(batch) / row, loss)) as f64).collect();
    let in_time: Vec<f64> = arrived.iter().map(|number| number + number.sqrt() * source.normal()).collect();
    let delivered: f64 = arrived.iter().sum();
    let mut record = record("a", repeat, 100.0, 160.0);
    record.row.duration_s = 60.0;
    record.row.sent = MESSAGES;
    record.row.delivered = delivered as u64;
    record.estimates = [
        ("msgs_per_s".into(), intervals::batch_means(&in_time, &[60.0 / 32.0; 32]).unwrap()),
        (columns::DELIVERED_BY_NUMBER.into(), intervals::batch_means(&arrived, &sizes).unwrap()),
    ]
    .into();
    record.extra = [("lost_share".into(), Some(1.0 - delivered / MESSAGES as f64))].into();
    record
}

fn run(source: &mut Source, repeats: u32, loss: f64, row: u64) -> Vec<Record> {
    (1..=repeats).map(|repeat| lossy(source, repeat, loss, row)).collect()
}

/// Of runs of two seeds, whose losses have nothing to do with one another.
fn verdict(a: &[Record], b: &[Record], least: f64) -> Verdict {
    let manifest = |seed| Manifest { seed, planned_cells: a.len(), ..fixture::manifest() };
    let settings = CompareSettings { columns: vec!["lost_share".into()], ..settings(least) };
    compare((&manifest(1), a), (&manifest(2), b), &settings).rows[0].verdict
}

#[test]
fn when_messages_come_hides_no_difference_of_losses() {
    // By the table 5.8 % are found 9 times in 10 with 5 repeats.
    for (repeats, after) in [(5, 0.06), (1, 0.1)] {
        let mut source = Source(SEED);
        let found = |_: &usize| {
            let [a, b] = [0.05, after].map(|loss| run(&mut source, repeats, loss, 1));
            verdict(&a, &b, 0.02) == Verdict::Worse
        };
        let share = (0..200).filter(found).count() as f64 / 200.0;
        println!("{repeats} repeats: {after} is found in {share}");
        assert!(share >= 0.9, "seed {SEED}: {repeats} repeats: {share}");
    }
}

#[test]
fn equal_runs_are_not_told_apart_whatever_their_rows() {
    for (repeats, row) in [(1, 1), (3, 1), (5, 1), (1, 8), (3, 8), (5, 8)] {
        let mut source = Source(SEED);
        let differs = |_: &usize| {
            let [a, b] = [0, 1].map(|_| run(&mut source, repeats, 0.05, row));
            verdict(&a, &b, 0.0) != Verdict::NoDifference
        };
        let share = (0..600).filter(differs).count() as f64 / 600.0;
        println!("{repeats} repeats, rows of {row}: {share}");
        assert!(at_most_stated(share, 600), "seed {SEED}: {repeats} repeats, rows of {row}: {share}");
    }
    let same = run(&mut Source(SEED), 5, 0.05, 8);
    assert_eq!(verdict(&same, &same, 0.0), Verdict::NoDifference);
}
