use proptest::prelude::*;
use weir_testbed::random::Source;

use super::*;
use crate::fixture;
use crate::record::{OwnColumn, Row};

fn claim(column: &str, selection: &[(&str, Value)], at_least: Option<f64>, at_most: Option<f64>) -> Claim {
    Claim {
        text: "said".into(),
        required: false,
        interval: IntervalUse::Inside,
        reading: String::new(),
        selection: selection.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        relative_to: None,
        column: column.into(),
        at_least,
        at_most,
        confidence: 0.95,
        min_duration_s: None,
    }
}

fn udp() -> (&'static str, Value) {
    ("transport", Value::Text("udp".into()))
}

fn tcp() -> (&'static str, Value) {
    ("transport", Value::Text("tcp".into()))
}

fn loss(pct: f64) -> (&'static str, Value) {
    ("loss_pct", Value::Number(pct))
}

/// All of a complete run of these records.
fn judge_all(claims: &[Claim], records: &[Record]) -> Vec<Judged> {
    judge(&Manifest { claims: claims.to_vec(), planned_cells: records.len(), ..fixture::manifest() }, records)
}

fn one(claim: Claim) -> Judged {
    judge_all(&[claim], &fixture::records()).remove(0)
}

#[test]
fn bounds_decide() {
    let judged = one(claim("delay_mean_us", &[udp()], None, Some(200.0)));
    assert_eq!(judged.verdict, Verdict::Reproduced, "{}", judged.reason);
    assert!(
        judged.reason.starts_with("5%/udp, the nearest of 21 cells, lies within ≤ 200 µs at 95 % confidence"),
        "{}",
        judged.reason
    );
    assert_eq!(one(claim("delay_mean_us", &[udp()], Some(200.0), None)).verdict, Verdict::Refuted);
    let value = fixture::records()[40].row.msgs_per_s;
    let on_the_edge = one(claim("msgs_per_s", &[udp(), loss(20.0)], Some(value), None));
    assert_eq!(on_the_edge.verdict, Verdict::Undecided, "{}", on_the_edge.reason);
    assert_eq!(on_the_edge.cell.as_deref(), Some("20%/udp"));
}

#[test]
fn observations_are_exact() {
    assert_eq!(one(claim("unexplained", &[udp()], Some(0.0), Some(0.0))).verdict, Verdict::Reproduced);
    let largest = fixture::records()[41].row.delay_max_us.unwrap();
    let at = |bound| one(claim("delay_max_us", &[tcp(), loss(20.0)], Some(bound), None)).verdict;
    assert_eq!((at(largest), at(largest + 1.0)), (Verdict::Reproduced, Verdict::Refuted));
}

#[test]
fn ratios_find_their_partners() {
    let relative = |to: &[(&str, Value)], at_most| Claim {
        relative_to: Some(claim("", to, None, None).selection),
        ..claim("msgs_per_s", &[tcp(), loss(20.0)], None, Some(at_most))
    };
    let quarter = one(relative(&[udp()], 0.25));
    assert_eq!(quarter.verdict, Verdict::Reproduced, "{}", quarter.reason);
    let records = fixture::records();
    let measured = quarter.measured.unwrap().value;
    assert!((measured - records[41].row.msgs_per_s / records[40].row.msgs_per_s).abs() < 1e-9);
    let itself = one(relative(&[loss(0.0)], 0.25)).measured.unwrap().value;
    assert!((itself - records[41].row.msgs_per_s / records[1].row.msgs_per_s).abs() < 1e-9);
    // Without the partner, the one at another loss is no substitute.
    let without: Vec<Record> = records.iter().filter(|r| r.row.cell != "20%/udp").cloned().collect();
    let judged = judge_all(&[relative(&[udp()], 0.25)], &without).remove(0);
    assert_eq!(judged.reason, "20%/tcp: the cell to compare with is missing");
    assert_eq!(judged.verdict, Verdict::Undecided);
}

#[test]
fn a_cell_beside_the_sweep_is_meant_only_by_name() {
    let records = fixture::matrix_records();
    let judged = |selection: &[(&str, Value)]| {
        let claim = claim("mbit_per_s", selection, Some(1.0), None);
        judge_all(&[claim], &records).remove(0)
    };
    let swept = judged(&[loss(0.0)]);
    assert!(swept.reason.contains("the nearest of 14 cells"), "{}", swept.reason);
    let named = judged(&[("cell", Value::Text("baseline".into()))]);
    assert_eq!((named.verdict, named.cell.as_deref()), (Verdict::Reproduced, Some("baseline")));
}

#[test]
fn what_cannot_be_judged_says_why() {
    let reason = |claim| {
        let judged = one(claim);
        assert_eq!(judged.verdict, Verdict::Undecided);
        judged.reason
    };
    assert_eq!(reason(claim("sent", &[loss(33.0)], Some(1.0), None)), "no cell of this run matches");
    let long = Claim { min_duration_s: Some(1200.0), ..claim("sent", &[udp()], Some(1.0), None) };
    assert_eq!(reason(long), "needs 1200 s of sending, this run had 60 s");
    assert!(reason(claim("undelivered", &[udp()], Some(0.0), None)).ends_with("undelivered was not measured"));
    assert!(reason(claim("delay_p99_us", &[udp()], Some(0.0), None)).ends_with("the value has no interval"));

    let mut records = fixture::records();
    records[0].row.valid = false;
    let of =
        |column: &str, records: &[Record]| judge_all(&[claim(column, &[udp()], Some(1.0), None)], records).remove(0);
    let judged = of("msgs_per_s", &records);
    assert_eq!((judged.verdict, judged.reason.as_str()), (Verdict::Undecided, "0%/udp: the cell is not valid"));
    // Each column asks for what it rests on.
    records[0].disturbed = [(Statistic::Mean, "61 % of the messages were disturbed".to_owned())].into();
    assert_eq!(of("msgs_per_s", &records).verdict, Verdict::Reproduced);
    assert_eq!(of("delay_mean_us", &records).reason, "0%/udp: 61 % of the messages were disturbed");
    assert_eq!(of("sent", &records).verdict, Verdict::Reproduced);
    // A standstill only lengthens delays: what is short in spite of it is short.
    let below =
        |bound| judge_all(&[claim("delay_mean_us", &[udp(), loss(0.0)], None, Some(bound))], &records).remove(0);
    assert_eq!([below(1e6), below(1.0)].map(|judged| judged.verdict), [Verdict::Reproduced, Verdict::Undecided]);
    assert!(judge_all(&[claim("sent", &[], Some(1.0), None)], &[]).remove(0).reason.contains("no cell"));
}

#[test]
fn more_cells_need_wider_intervals() {
    let alone = one(claim("msgs_per_s", &[udp(), loss(20.0)], Some(0.0), None)).measured.unwrap();
    let jointly = one(claim("msgs_per_s", &[udp()], Some(0.0), None)).measured.unwrap();
    assert_eq!(alone.value, jointly.value, "20 % is the nearest to 0 in both");
    assert!(jointly.low < alone.low && alone.high < jointly.high);
}

proptest! {
    // Each case judges a whole run.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn wider_bounds_never_do_harm(low in 0.0f64..120.0, width in 0.0f64..60.0, more in 0.0f64..60.0, cells in 0usize..3) {
        let selection = [vec![udp()], vec![tcp(), loss(12.0)], vec![]][cells].clone();
        let rank = |verdict| match verdict {
            Verdict::Refuted => 0,
            Verdict::Undecided | Verdict::Skipped => 1,
            Verdict::Reproduced => 2,
        };
        let at = |low, high| rank(one(claim("msgs_per_s", &selection, Some(low), Some(high))).verdict);
        prop_assert!(at(low, low + width) <= at(low - more, low + width));
        prop_assert!(at(low, low + width) <= at(low, low + width + more));
    }

    #[test]
    fn more_confidence_never_decides(bound in 0.0f64..120.0) {
        let at = |confidence| {
            one(Claim { confidence, ..claim("msgs_per_s", &[tcp(), loss(12.0)], Some(bound), None) }).verdict
        };
        prop_assert!(at(0.999) == Verdict::Undecided || at(0.999) == at(0.9));
    }
}

fn required(at_least: f64) -> Claim {
    Claim { required: true, ..claim("msgs_per_s", &[tcp(), loss(20.0)], Some(at_least), None) }
}

#[test]
fn an_assertion_fails_unless_it_is_shown_to_hold() {
    let records = fixture::records();
    let value = records[41].row.msgs_per_s;
    let told = |claim: Claim| {
        let judged = one(claim);
        (judged.word, judged.fails())
    };
    assert_eq!(told(required(1.0)), ("pass", false));
    assert_eq!(told(required(70.0)), ("fail", true));
    assert_eq!(told(required(value)), ("fail", true), "not shown");
    assert_eq!(told(Claim { interval: IntervalUse::Touching, ..required(value) }), ("pass", false));
    assert_eq!(told(Claim { interval: IntervalUse::Ignored, ..required(value) }), ("pass", false));
    assert_eq!(told(Claim { min_duration_s: Some(3600.0), ..required(70.0) }), ("skipped", false));
    assert_eq!(told(Claim { required: true, ..claim("sent", &[loss(33.0)], Some(1.0), None) }), ("fail", true));
    let incomplete = Manifest { claims: vec![required(1.0)], planned_cells: 43, ..fixture::manifest() };
    let judged = judge(&incomplete, &records).remove(0);
    assert_eq!((judged.word, judged.reason.as_str()), ("fail", "the run is not complete: 42 of 43 cells"));
    assert!(fails(&incomplete, &records));
}

#[test]
fn a_claim_without_a_text_is_named_by_its_bounds() {
    let nameless = Claim { text: String::new(), ..claim("mbit_per_s", &[loss(0.0)], Some(900.0), None) };
    assert_eq!(one(nameless.clone()).name, "mbit_per_s ≥ 900 Mbit/s where loss_pct = 0");
    let ratio = Claim { relative_to: Some([("transport".into(), Value::Text("udp".into()))].into()), ..nameless };
    assert_eq!(one(ratio).name, "mbit_per_s relative to transport = udp ≥ 900 where loss_pct = 0");
}

#[test]
fn a_column_of_the_scenario_has_its_unit_and_rests_on_its_statistic() {
    let own = OwnColumn { name: "found_pct".into(), unit: "%".into(), statistic: Statistic::P99, better: None };
    let mut records = fixture::records();
    records.iter_mut().for_each(|record| _ = record.extra.insert("found_pct".into(), Some(98.5)));
    let claims = vec![claim("found_pct", &[udp()], Some(97.0), None)];
    let manifest = Manifest { claims, columns: vec![own], ..fixture::manifest() };
    let judged = judge(&manifest, &records).remove(0);
    assert_eq!((judged.verdict, judged.measured_in_words.as_str()), (Verdict::Reproduced, "98.5 %"));
    assert_eq!(judged.bounds, "≥ 97 %");
    records[0].disturbed = [(Statistic::P99, "the machine stood still".to_owned())].into();
    let judged = judge(&manifest, &records).remove(0);
    assert_eq!((judged.verdict, judged.reason.as_str()), (Verdict::Undecided, "0%/udp: the machine stood still"));
}

/// How often claims hold that bound every cell by the truth, all cells together: of runs of three repeats of 16 batches,
/// whose means differ by `excess` times the variance of a repeat's mean. The value lies at both bounds with chance 0, so a
/// claim is refuted exactly where an interval misses the truth.
fn share_refuted(cells: usize, excess: f64) -> f64 {
    let mut source = Source(41);
    let runs = 2000;
    let refuted = (0..runs).filter(|_| {
        let mut records = Vec::new();
        for cell in 0..cells {
            for repeat in 1..=3 {
                let own = 100.0 + (excess / 16.0).sqrt() * source.normal();
                let batches: Vec<f64> = (0..16).map(|_| own + source.normal()).collect();
                let estimate = intervals::batch_means(&batches, &[1.0; 16]).unwrap();
                let row = Row {
                    cell: cell.to_string(),
                    repeat,
                    duration_s: 60.0,
                    msgs_per_s: estimate.value,
                    valid: true,
                    ..Row::default()
                };
                records.push(Record { row, estimates: [("msgs_per_s".into(), estimate)].into(), ..Record::default() });
            }
        }
        judge_all(&[claim("msgs_per_s", &[], Some(100.0), Some(100.0))], &records)[0].verdict == Verdict::Refuted
    });
    refuted.count() as f64 / f64::from(runs)
}

#[test]
fn intervals_over_repeats_hold_whether_or_not_these_differ() {
    // Bars are three deviations of 2,000 runs beyond 5 %; those in between are what the module says at worst.
    for (cells, excess, max) in
        [(1, 0.0, 0.065), (1, 3.0, 0.092), (1, 100.0, 0.065), (8, 0.0, 0.065), (8, 100.0, 0.065)]
    {
        let share = share_refuted(cells, excess);
        assert!(share <= max, "{cells} cells, {excess}: {share}");
    }
}

#[test]
fn three_repeats_decide_more_than_one() {
    let mut source = Source(3);
    let widths = [1, 3].map(|repeats| {
        let record = |repeat| {
            let batches: Vec<f64> = (0..16).map(|at| 100.0 + f64::from(at % 4) + 0.01 * source.normal()).collect();
            let estimate = intervals::batch_means(&batches, &[1.0; 16]).unwrap();
            let row = Row { repeat, duration_s: 60.0, msgs_per_s: estimate.value, valid: true, ..Row::default() };
            Record { row, estimates: [("msgs_per_s".into(), estimate)].into(), ..Record::default() }
        };
        let records: Vec<Record> = (1..=repeats).map(record).collect();
        let measured = judge_all(&[claim("msgs_per_s", &[], Some(90.0), None)], &records)[0].measured.unwrap();
        measured.high - measured.low
    });
    assert!(widths[1] < widths[0] / 1.6, "{widths:?}");
}
