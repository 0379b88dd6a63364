//! What comparisons find, and how often they cry wolf, kind by kind: simulated with a fixed seed.

use weir_stats::{Estimate, Method, intervals};

use super::*;

/// Seed of every simulation here.
const SEED: u64 = 11;

/// Messages of a repeat: the default scenario's, 60 s of 100 a second.
const MESSAGES: u64 = 6000;

/// A column of two runs, repeat by repeat.
#[derive(Clone, Copy)]
struct Case {
    /// What it is, in the words of the table.
    name: &'static str,
    column: &'static str,
    /// What is measured in the first run: a count, a share, or a multiple of what is usual.
    base: f64,
    same_seed: bool,
    /// Losses come in rows of so many.
    in_rows: f64,
    /// A repeat in both runs, from what is measured in each.
    pair: fn(&mut Source, [f64; 2]) -> [f64; 2],
}

fn lognormal(source: &mut Source, [a, b]: [f64; 2], scatter: f64) -> [f64; 2] {
    [a, b].map(|value| value * (scatter * source.normal()).exp())
}

/// Two seeds: losses have nothing to do with one another.
fn lost(source: &mut Source, shares: [f64; 2]) -> [f64; 2] {
    shares.map(|share| source.binomial(MESSAGES, share) as f64)
}

/// One seed: what is lost at the lesser loss is lost at the greater, too.
fn lost_alike(source: &mut Source, [a, b]: [f64; 2]) -> [f64; 2] {
    let (less, more) = (a.min(b), a.max(b));
    let common = source.binomial(MESSAGES, less);
    let all = common + source.binomial(MESSAGES - common, (more - less) / (1.0 - less));
    if a <= b { [common as f64, all as f64] } else { [all as f64, common as f64] }
}

const CASES: [Case; 11] = [
    Case {
        name: "share: loss of 5 %, one seed",
        column: "lost_share",
        base: 0.05,
        same_seed: true,
        in_rows: 1.0,
        pair: lost_alike,
    },
    Case {
        name: "share: loss of 5 %, two seeds",
        column: "lost_share",
        base: 0.05,
        same_seed: false,
        in_rows: 1.0,
        pair: lost,
    },
    Case {
        name: "share: loss of 1 %, two seeds",
        column: "lost_share",
        base: 0.01,
        same_seed: false,
        in_rows: 1.0,
        pair: lost,
    },
    Case { name: "share: no loss", column: "lost_share", base: 0.0, same_seed: true, in_rows: 1.0, pair: lost_alike },
    Case {
        name: "count: 300 events, two seeds",
        column: "retransmits",
        base: 300.0,
        same_seed: false,
        in_rows: 1.0,
        pair: |source, means| means.map(|mean| source.poisson(mean)),
    },
    Case {
        name: "amount: scatter of 1 %",
        column: "received_bytes",
        base: 1e8,
        same_seed: true,
        in_rows: 1.0,
        pair: |source, amounts| lognormal(source, amounts, 0.01),
    },
    Case {
        name: "rate: scatter of 1 %",
        column: "load_mbit_per_s",
        base: 40.0,
        same_seed: true,
        in_rows: 1.0,
        pair: |source, rates| lognormal(source, rates, 0.01),
    },
    Case {
        name: "duration: scatter of 5 %",
        column: "delay_mean_us",
        base: 160.0,
        same_seed: true,
        in_rows: 1.0,
        pair: |source, delays| lognormal(source, delays, 0.05),
    },
    Case {
        name: "share of the time: 10 %, scatter of 5 %",
        column: "cpu_softirq_pct",
        base: 10.0,
        same_seed: true,
        in_rows: 1.0,
        // As many ticks as there are in 60 s.
        pair: |source, shares| lognormal(source, shares, 0.05).map(|share| (share * 60.0).round() / 60.0),
    },
    Case {
        name: "level: scatter of 5 %",
        column: "cwnd_mean_bytes",
        base: 1e5,
        same_seed: true,
        in_rows: 1.0,
        pair: |source, levels| lognormal(source, levels, 0.05),
    },
    Case {
        name: "extreme: largest of 6,000 exponential delays",
        column: "delay_max_us",
        base: 1000.0,
        same_seed: true,
        in_rows: 1.0,
        pair: |source, scales| scales.map(|scale| scale * source.largest(MESSAGES as f64)),
    },
];

/// The record of a repeat in which this was measured; of a share its losses, and the rate by batches.
fn measured(column: &str, repeat: u32, value: f64, in_rows: f64) -> Record {
    let mut record = record("a", repeat, 100.0, 160.0);
    record.row.duration_s = 60.0;
    let added = match column {
        "lost_share" => {
            record.row.sent = MESSAGES;
            record.row.delivered = MESSAGES - value as u64;
            let lost = (value + 1.0) / MESSAGES as f64;
            let half = 100.0 * (lost * in_rows / MESSAGES as f64).sqrt() * intervals::student(0.95, 31.0);
            let estimate =
                Estimate { value: 100.0, low: 100.0 - half, high: 100.0 + half, n: 32, method: Method::BatchMeans };
            record.estimates.insert("msgs_per_s".into(), estimate);
            value / MESSAGES as f64
        }
        _ => value,
    };
    match column {
        "retransmits" => record.row.retransmits = Some(value as u64),
        "delay_mean_us" => record.row.delay_mean_us = Some(value),
        "delay_max_us" => record.row.delay_max_us = Some(value),
        added_column => record.extra = [(added_column.into(), Some(added))].into(),
    }
    record
}

impl Case {
    /// A comparison of two runs in which these are measured.
    fn verdict(&self, source: &mut Source, repeats: u32, bases: [f64; 2], settings: &CompareSettings) -> Verdict {
        let pairs = (1..=repeats).map(|repeat| {
            let [a, b] = (self.pair)(source, bases);
            (measured(self.column, repeat, a, self.in_rows), measured(self.column, repeat, b, self.in_rows))
        });
        let (a, b): (Vec<Record>, Vec<Record>) = pairs.unzip();
        let manifest = |seed| Manifest { seed, planned_cells: a.len(), ..fixture::manifest() };
        let settings = CompareSettings { columns: vec![self.column.into()], ..settings.clone() };
        let second = if self.same_seed { 1 } else { 2 };
        let compared = compare((&manifest(1), &a), (&manifest(second), &b), &settings);
        assert_eq!(compared.rows[0].basis, Some(Basis::Repeats(repeats as usize)), "{}", self.name);
        compared.rows[0].verdict
    }

    /// Share of comparisons that find something.
    fn found(&self, repeats: u32, bases: [f64; 2], settings: &CompareSettings, comparisons: usize) -> f64 {
        let mut source = Source(SEED);
        let found = |_: &usize| self.verdict(&mut source, repeats, bases, settings) != Verdict::NoDifference;
        (0..comparisons).filter(found).count() as f64 / comparisons as f64
    }

    /// What is measured in the second run, at `step` of a ladder of differences: each 1.08 times the one before.
    fn changed(&self, step: u32) -> f64 {
        let difference = 0.0004 * 1.08f64.powf(step.into());
        if self.base == 0.0 { difference } else { self.base * (1.0 + 10.0 * difference) }
    }

    /// The least difference of the ladder that is found 9 times in 10, as the table has it.
    fn least_found(&self, repeats: u32, tests: f64) -> String {
        let settings = CompareSettings { false_alarms: 0.05 / tests, ..settings(0.02) };
        let is_found = |step: u32| self.found(repeats, [self.base, self.changed(step)], &settings, COMPARISONS) >= 0.9;
        // More is found more often.
        let (mut missed, mut found) = (0, 96);
        while found - missed > 1 {
            let middle = (missed + found) / 2;
            if is_found(middle) { found = middle } else { missed = middle }
        }
        let value = self.changed(found);
        match self.column {
            "lost_share" => format!("{} %", format::short((value * 1e4).round() / 100.0)),
            // Two digits.
            _ => match (value / self.base - 1.0) * 100.0 {
                percent if percent >= 100.0 => format!("+{} %", (percent / 10.0).round() * 10.0),
                percent => format!("+{} %", format::significant(percent, 2)),
            },
        }
    }
}

/// Simulated comparisons behind each number of the table.
const COMPARISONS: usize = 200;

/// The table of `docs/lab.md`.
fn table() -> String {
    let mut text =
        String::from("| kind | 3 repeats | 5 repeats | 10 repeats | 5, one of 60 tests |\n|---|---|---|---|---|\n");
    for case in &CASES {
        let cells = [(3, 1.0), (5, 1.0), (10, 1.0), (5, 60.0)].map(|(repeats, tests)| case.least_found(repeats, tests));
        text += &format!("| {} | {} |\n", case.name, cells.join(" | "));
    }
    text
}

#[test]
fn what_is_found_is_in_the_documentation() {
    let (table, docs) = (table(), include_str!("../../../../../docs/lab.md"));
    assert!(docs.contains(&table), "seed {SEED}: docs/lab.md has another table than\n{table}");
}

/// What equal runs can be like.
const EQUAL: [Case; 6] = [
    Case {
        name: "few events",
        column: "retransmits",
        base: 0.7,
        same_seed: true,
        in_rows: 1.0,
        pair: |source, means| means.map(|mean| source.poisson(mean)),
    },
    Case {
        name: "half of the events are those of both",
        column: "retransmits",
        base: 20.0,
        same_seed: true,
        in_rows: 1.0,
        pair: |source, means| {
            let common = source.poisson(means[0] / 2.0);
            means.map(|mean| common + source.poisson(mean / 2.0))
        },
    },
    Case {
        name: "few losses, half of them those of both",
        column: "lost_share",
        base: 0.001,
        same_seed: true,
        in_rows: 1.0,
        pair: |source, shares| {
            let common = source.binomial(MESSAGES, shares[0] / 2.0) as f64;
            shares.map(|share| common + source.binomial(MESSAGES, share / 2.0) as f64)
        },
    },
    Case {
        name: "losses in rows of eight",
        column: "lost_share",
        base: 0.05,
        same_seed: false,
        in_rows: 8.0,
        pair: |source, shares| shares.map(|share| 8.0 * source.binomial(MESSAGES / 8, share) as f64),
    },
    Case {
        name: "half of the scatter is common to a pair",
        column: "delay_mean_us",
        base: 160.0,
        same_seed: true,
        in_rows: 1.0,
        pair: |source, [a, b]| {
            let common = 0.1 * source.normal();
            lognormal(source, [a * common.exp(), b * common.exp()], 0.1)
        },
    },
    Case {
        name: "a tick or none",
        column: "cpu_softirq_pct",
        base: 1.0 / 60.0,
        same_seed: true,
        in_rows: 1.0,
        pair: |source, ticks| ticks.map(|tick| if source.uniform() < 0.5 { tick } else { 0.0 }),
    },
];

#[test]
fn equal_runs_alarm_no_more_often_than_stated_whatever_the_kind() {
    for case in CASES.iter().chain(&EQUAL) {
        for repeats in [3, 5] {
            let share = case.found(repeats, [case.base; 2], &settings(0.0), 600);
            println!("{}, {repeats} repeats: {share}", case.name);
            assert!(at_most_stated(share, 600), "seed {SEED}: {}, {repeats} repeats: {share}", case.name);
        }
    }
}

#[test]
fn what_favours_all_repeats_of_a_run_by_no_more_than_the_least_is_no_alarm() {
    // As if each run had met another machine: its repeats have that in common.
    for case in &CASES {
        let share = case.found(5, [case.base, case.base * 1.02], &settings(0.02), 600);
        println!("{}: {share}", case.name);
        assert!(at_most_stated(share, 600), "seed {SEED}: {}: {share}", case.name);
    }
}

#[test]
fn a_point_more_of_loss_is_found_in_the_default_scenario() {
    let [one_seed, two_seeds, ..] = &CASES;
    for (case, repeats) in [(one_seed, 3), (one_seed, 5), (two_seeds, 7)] {
        // Beside throughput and delay: one of three tests.
        let settings = CompareSettings { false_alarms: 0.05 / 3.0, ..settings(0.02) };
        let share = case.found(repeats, [0.05, 0.06], &settings, 1000);
        println!("{}, {repeats} repeats: 6 % is found in {share}", case.name);
        assert!(share >= 0.9, "seed {SEED}: {}, {repeats} repeats: {share}", case.name);
    }
}

/// A single run of the default scenario: losses in rows of `row`, their share off by `between` times the standard error
/// that it has by itself; the rate with its batches, as the lab has it.
fn single_run(source: &mut Source, loss: f64, row: u64, between: f64) -> Vec<Record> {
    let error = (loss * (1.0 - loss) * row as f64 / MESSAGES as f64).sqrt();
    let loss = (loss + between * error * source.normal()).clamp(0.0, 1.0);
    let batch = |from: u64| MESSAGES * (from + 1) / 32 - MESSAGES * from / 32;
    let arrived: Vec<f64> = (0..32)
        .map(|number| batch(number) as f64 - (row * source.binomial(batch(number) / row, loss)) as f64)
        .collect();
    let lost = MESSAGES as f64 - arrived.iter().sum::<f64>();
    let mut record = measured("lost_share", 1, lost, 1.0);
    let rate = intervals::batch_means(&arrived, &[60.0 / 32.0; 32]).unwrap();
    record.row.msgs_per_s = rate.value;
    record.estimates = [("msgs_per_s".into(), rate)].into();
    vec![record]
}

fn of_single_runs(a: &[Record], b: &[Record], least: f64) -> Row {
    let settings = CompareSettings { columns: vec!["lost_share".into()], ..settings(least) };
    compared(a, b, &settings).rows.remove(0)
}

#[test]
fn single_runs_of_equal_loss_alarm_no_more_often_than_stated() {
    for (loss, row, between) in [(0.0, 1, 0.0), (0.0005, 1, 0.0), (0.05, 1, 3f64.sqrt()), (0.05, 8, 3f64.sqrt())] {
        let mut source = Source(SEED);
        let differs = |_: &usize| {
            let [a, b] = [0, 1].map(|_| single_run(&mut source, loss, row, between));
            of_single_runs(&a, &b, 0.0).verdict != Verdict::NoDifference
        };
        let share = (0..600).filter(differs).count() as f64 / 600.0;
        println!("loss {loss} in rows of {row}: {share}");
        assert!(at_most_stated(share, 600), "seed {SEED}: loss {loss} in rows of {row}: {share}");
    }
}

#[test]
fn single_runs_show_a_loss_that_is_plain() {
    let mut source = Source(SEED);
    let run = |source: &mut Source, loss| single_run(source, loss, 1, 0.0);
    for (before, after) in [(0.0, 0.01), (0.05, 0.1), (0.05, 0.5), (0.0, 1.0)] {
        let (a, b) = (run(&mut source, before), run(&mut source, after));
        let (worse, better) = (of_single_runs(&a, &b, 0.02), of_single_runs(&b, &a, 0.02));
        assert_eq!((worse.verdict, worse.basis), (Verdict::Worse, Some(Basis::Batches)), "{before} {after} {worse:?}");
        assert_eq!(better.verdict, Verdict::Better, "{before} {after}");
    }
    let (a, b) = (run(&mut source, 0.05), run(&mut source, 0.055));
    assert_eq!(of_single_runs(&a, &b, 0.02).verdict, Verdict::NoDifference, "too little for one run of each");
}

#[test]
fn what_arrives_and_what_is_lost_are_judged_alike() {
    let mut source = Source(SEED);
    let run = |source: &mut Source, loss: f64| -> Vec<Record> {
        let repeats = (1..=5).map(|repeat| measured("lost_share", repeat, source.binomial(MESSAGES, loss) as f64, 1.0));
        let with_delivered = |mut record: Record| {
            let lost = record.extra.get("lost_share").flatten().map(|lost| 1.0 - lost);
            record.extra.push(("delivered_share".into(), lost));
            record
        };
        repeats.map(with_delivered).collect()
    };
    for (before, after, verdict) in [(0.01, 0.02, Verdict::Worse), (0.5, 0.505, Verdict::NoDifference)] {
        let (a, b) = (run(&mut source, before), run(&mut source, after));
        let columns = ["lost_share", "delivered_share"].map(String::from).into();
        let rows = compared(&a, &b, &CompareSettings { columns, ..settings(0.02) }).rows;
        assert_eq!((rows[0].verdict, rows[1].verdict), (verdict, verdict), "{before} {after}: {rows:?}");
        let [lost, delivered] = [&rows[0], &rows[1]].map(|row| row.p_value.unwrap());
        assert!((lost - delivered).abs() < 1e-9, "{lost} {delivered}");
    }
}

#[test]
fn a_gross_difference_of_any_kind_is_found() {
    for case in &CASES {
        let more = if case.base == 0.0 { 0.05 } else { case.base * 10.0 };
        let share = case.found(5, [case.base, more], &settings(0.02), 100);
        assert_eq!(share, 1.0, "seed {SEED}: {}", case.name);
    }
}

#[test]
fn three_repeats_show_a_loss_of_two_percent() {
    let run = |lost: [f64; 3]| {
        let repeats = (1..).zip(lost).map(|(repeat, lost)| measured("lost_share", repeat, lost, 1.0));
        repeats.collect::<Vec<_>>()
    };
    let all: CompareSettings = CompareSettings {
        columns: ["mbit_per_s", "delay_mean_us", "lost_share"].map(String::from).into(),
        ..settings(0.02)
    };
    let compared = compared(&run([0.0; 3]), &run([129.0, 129.0, 158.0]), &all);
    assert_eq!(compared.rows[2].verdict, Verdict::Worse, "{:?}", compared.rows[2]);
}

#[test]
fn three_repeats_that_agree_prove_no_certain_difference() {
    // One step of each column, in each of three repeats: by itself no scatter at all.
    for (column, before, after) in [
        ("retransmits", 0.0, 1.0),
        ("lost_share", 0.0, 1.0),
        ("load_mbit_per_s", 1.0, 1.0 + 8e-3 / 60.0),
        ("received_bytes", 1e6, 1e6 + 1e3),
        ("delay_mean_us", 10.0, 11.0),
        ("cpu_softirq_pct", 0.0, 1.0 / 60.0),
        ("delay_max_us", 10.0, 11.0),
    ] {
        let run = |value: f64| (1..=3).map(|repeat| measured(column, repeat, value, 1.0)).collect::<Vec<_>>();
        let settings = CompareSettings { columns: vec![column.into()], ..settings(0.0) };
        let row = compared(&run(before), &run(after), &settings).rows.remove(0);
        assert_eq!(row.verdict, Verdict::NoDifference, "{row:?}");
    }
}

#[test]
fn a_collapse_is_found_though_what_is_left_lies_far_apart() {
    let run = |rates: [f64; 3]| (1..).zip(rates).map(|(n, rate)| record("a", n, rate, 160.0)).collect::<Vec<_>>();
    let settings = CompareSettings { columns: vec!["mbit_per_s".into()], ..settings(0.02) };
    let compared = compared(&run([0.794, 0.792, 0.794]), &run([0.002, 0.038, 0.01]), &settings);
    assert_eq!(compared.rows[0].verdict, Verdict::Worse, "{:?}", compared.rows[0]);
}

#[test]
fn what_standstills_can_have_taken_is_no_difference() {
    let stood = |mut records: Vec<Record>, percent: f64| {
        records.iter_mut().for_each(|record| record.extra.push(("standstill_pct".into(), Some(percent))));
        records
    };
    let run = |rate: f64| (1..=4).map(|repeat| record("a", repeat, rate, 160.0)).collect::<Vec<_>>();
    let rates = CompareSettings { columns: vec!["mbit_per_s".into()], ..settings(0.02) };
    let verdict = |a: &[Record], b: &[Record]| compared(a, b, &rates).rows[0].verdict;
    assert_eq!(verdict(&run(0.792), &run(0.756)), Verdict::Worse);
    assert_eq!(verdict(&run(0.792), &stood(run(0.756), 4.2)), Verdict::NoDifference);
    // Of losses only those that nobody planned.
    let lossy = |lost: f64, planned: u64| {
        let repeat = |repeat| {
            let mut record = measured("lost_share", repeat, lost, 1.0);
            record.row.planned_drops = planned;
            record
        };
        stood((1..=4).map(repeat).collect(), 4.2)
    };
    let shares = CompareSettings { columns: vec!["lost_share".into()], ..settings(0.02) };
    let verdict = |a: &[Record], b: &[Record]| compared(a, b, &shares).rows[0].verdict;
    assert_eq!(verdict(&lossy(0.0, 0), &lossy(120.0, 0)), Verdict::NoDifference);
    assert_eq!(verdict(&lossy(0.0, 0), &lossy(120.0, 120)), Verdict::Worse);
}
