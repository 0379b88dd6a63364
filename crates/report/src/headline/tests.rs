use std::collections::BTreeSet;

use proptest::prelude::*;
use weir_units::format;

use super::Headline;
use crate::record::{Chart, ChartKind, Estimate, Manifest, Method, Record, Row, Statistic};
use crate::{cells, fixture};

fn headline(manifest: &Manifest, records: &[Record]) -> Headline {
    Headline::new(manifest, records, &cells::group(records))
}

/// Answer and caveat of a run without charts, planned as it ran.
fn answer(records: &[Record]) -> String {
    let manifest = Manifest { charts: Vec::new(), planned_cells: records.len(), ..fixture::manifest() };
    let found = headline(&manifest, records);
    found.answer + &found.caveat.map(|caveat| format!(" [{caveat}]")).unwrap_or_default()
}

/// A cell with throughput and mean delay, each with an interval of so many times itself to either side.
fn record(axes: &[(&str, &str)], transport: &str, values: [f64; 2], half: f64) -> Record {
    let estimate = |value: f64| Estimate {
        value,
        low: value * (1.0 - half),
        high: value * (1.0 + half),
        n: 32,
        method: Method::BatchMeans,
    };
    let row = Row {
        cell: axes.iter().map(|(_, value)| *value).collect::<Vec<_>>().join("/"),
        repeat: 1,
        transport: transport.into(),
        msgs_per_s: values[0],
        delay_mean_us: Some(values[1]),
        valid: true,
        ..Row::default()
    };
    Record {
        row,
        axes: axes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        estimates: [("msgs_per_s".into(), estimate(values[0])), ("delay_mean_us".into(), estimate(values[1]))].into(),
        ..Record::default()
    }
}

/// The telemetry fixture with its delays first, as the scenario has its charts.
fn telemetry() -> Manifest {
    let mut manifest = fixture::manifest();
    manifest.charts.swap(0, 1);
    manifest
}

#[test]
fn runs_in_words() {
    let mut matrix = fixture::matrix_records();
    let of_matrix = headline(&fixture::matrix_manifest(), &matrix).answer;
    matrix.truncate(1);
    let receivers: Vec<Record> = ["0%", "5%"]
        .into_iter()
        .flat_map(|loss| {
            [("near", 100.0, 150.0), ("far", 100.0, 50e3), ("bad", if loss == "0%" { 100.0 } else { 95.1 }, 160.0)].map(
                |(name, rate, delay)| record(&[("links.x.loss", loss), ("receiver", name)], "udp", [rate, delay], 0.01),
            )
        })
        .collect();
    let words = [("udp", 93.0, 150.0), ("tcp", 93.4, 42e3)]
        .map(|(name, rate, delay)| record(&[("traffic.transport", name)], name, [rate, delay], 0.01));
    let many: Vec<Record> = (0..9)
        .map(|i| {
            record(
                &[("tcp.congestion", &format!("own{i}"))],
                "tcp",
                [10.0 + f64::from(i), 100.0 * f64::from(i + 1)],
                0.01,
            )
        })
        .collect();
    let queues: Vec<Record> = ["15kB", "1MB"]
        .into_iter()
        .flat_map(|queue| {
            ["0", "1", "4"].map(|streams| {
                let full = if streams == "0" {
                    10e3
                } else if queue == "1MB" {
                    170e3
                } else {
                    12.4e3
                };
                record(&[("links.wire.queue", queue), ("load.streams", streams)], "udp", [99.7, full], 0.02)
            })
        })
        .collect();
    let said = [
        ("loss and transport", headline(&telemetry(), &fixture::records()).answer),
        ("loss and latency, bulk", of_matrix),
        ("one cell, bulk", answer(&matrix)),
        ("one cell, messages", answer(&words[..1])),
        ("words alone", answer(&words)),
        ("many words", answer(&many)),
        ("receivers", answer(&receivers)),
        ("numbers twice", answer(&queues)),
        ("nothing", answer(&[])),
    ];
    let said: Vec<String> = said.iter().map(|(name, text)| format!("{name}: {text}")).collect();
    insta::assert_snapshot!(said.join("\n"));
}

#[test]
fn pictures_in_blocks() {
    let drawn = |manifest: &Manifest, records: &[Record]| headline(manifest, records).blocks(98).join("\n");
    let telemetry = drawn(&telemetry(), &fixture::records());
    let matrix = drawn(&fixture::matrix_manifest(), &fixture::matrix_records());
    insta::assert_snapshot!(format!("{telemetry}\n\n{matrix}"));
    assert!(headline(&fixture::manifest(), &fixture::records()).blocks(30).is_empty(), "too narrow");
}

/// Two transports over loss: rate and half its interval, a pair a loss.
fn pairs(rates: &[[(f64, f64); 2]]) -> Vec<Record> {
    let at = |(loss, pair): (usize, &[(f64, f64); 2])| {
        let loss = format!("{loss}%");
        [("udp", pair[0]), ("tcp", pair[1])].map(|(name, (rate, half))| {
            record(&[("path.loss", &loss), ("traffic.transport", name)], name, [rate, 100.0], half)
        })
    };
    rates.iter().enumerate().flat_map(at).collect()
}

#[test]
fn a_crossing_is_said_as_far_as_intervals_decide_it() {
    let udp = (90.0, 0.005);
    let of = |tcp: &[(f64, f64)]| answer(&pairs(&tcp.iter().map(|tcp| [udp, *tcp]).collect::<Vec<_>>()));
    let clear = of(&[(90.0, 0.005), (97.0, 0.005), (80.0, 0.005), (20.0, 0.01)]);
    assert!(
        clear.contains(
            "At 1 % loss TCP still delivered more than UDP, from 2 % on less: 20 against 90 messages a second at 3 %."
        ),
        "{clear}"
    );
    let open = of(&[(97.0, 0.005), (80.0, 0.3), (70.0, 0.4), (20.0, 0.01)]);
    assert!(open.contains("Without loss TCP still delivered more than UDP, at 3 % less: 20 against 90"), "{open}");
    let never = of(&[(90.0, 0.5), (80.0, 0.5), (70.0, 0.5), (60.0, 0.6)]);
    assert!(never.contains("which is more is not decided") && !never.contains("less"), "{never}");
    let always = of(&[(50.0, 0.01), (40.0, 0.01)]);
    assert!(
        always.contains("At every loss TCP delivered less than UDP: 40 against 90 messages a second at 1 % loss."),
        "{always}"
    );
    let twice = of(&[(50.0, 0.01), (99.0, 0.01), (50.0, 0.01)]);
    assert!(!twice.contains("less") && !twice.contains("decided"), "{twice}");
    let same = of(&[(90.1, 0.0), (90.2, 0.0)]);
    assert!(!same.contains("less") && !same.contains("more"), "certain, but not worth saying: {same}");
}

#[test]
fn what_is_not_valid_is_not_used_and_said() {
    let mut records = pairs(&[[(90.0, 0.01), (90.0, 0.01)], [(80.0, 0.01), (10.0, 0.01)], [(70.0, 0.01), (5.0, 0.01)]]);
    records[5].row.valid = false;
    let text = answer(&records);
    assert!(text.contains("At 1 % loss TCP delivered less than UDP: 10 against 80"), "{text}");
    assert!(text.ends_with("[Left out, as not valid: 2%/tcp.]"), "{text}");
    let mut one_loss = pairs(&[[(90.0, 0.01), (80.0, 0.01)], [(70.0, 0.01), (60.0, 0.01)]]);
    one_loss[2..].iter_mut().for_each(|record| record.row.valid = false);
    let text = answer(&one_loss);
    assert!(text.contains("Without loss TCP delivered less than UDP: 80 against 90 messages a second."), "{text}");
    records.iter_mut().for_each(|record| record.row.valid = false);
    assert_eq!(
        answer(&records),
        "There is no answer: no cell is valid. [Left out, as not valid: 6 of 6 cells (0%/udp, 0%/tcp and 4 more).]"
    );
    let mut faulty = pairs(&[[(90.0, 0.01), (90.0, 0.01)]]);
    faulty[1].row.unexplained = Some(3);
    let manifest = Manifest { planned_cells: 4, ..fixture::manifest() };
    let caveat = headline(&manifest, &faulty).caveat;
    assert_eq!(caveat.as_deref(), Some("2 of 4 cells are missing; the ledger does not close in 0%/tcp."));
}

#[test]
fn what_a_quantity_leaves_out_is_said_of_that_quantity() {
    let mut records = pairs(&[[(90.0, 0.01), (90.0, 0.01)], [(80.0, 0.01), (70.0, 0.01)]]);
    let why = "the machine stood still for 40 % of the time".to_owned();
    for record in &mut records[1..] {
        record.row.valid = false;
        record.disturbed = [(Statistic::Throughput, why.clone())].into();
    }
    let manifest = Manifest { charts: Vec::new(), planned_cells: records.len(), ..fixture::manifest() };
    let caveat = |records: &[Record]| headline(&manifest, records).caveat.unwrap();
    let told = caveat(&records);
    let own = "eft out of what was delivered, as not valid: 3 of 4 cells (0%/tcp, 1%/udp and 1 more)";
    assert!(told.contains(own) && !told.contains("the delays"), "{told}");
    records[3].disturbed.insert(Statistic::Delay, why.clone());
    let told = caveat(&records);
    assert!(told.contains(own) && told.contains("eft out of the delays, as not valid: 1%/tcp"), "{told}");
    records[1..].iter_mut().for_each(|record| drop(record.disturbed.insert(Statistic::Delay, why.clone())));
    let told = caveat(&records);
    assert!(told.contains("eft out, as not valid: 3 of 4 cells"), "{told}");
}

#[test]
fn a_wide_interval_makes_a_value_about() {
    let of = |half| answer(&[record(&[("traffic.transport", "udp")], "udp", [93.72, 1234.0], half)]);
    assert_eq!(of(0.1), "On average UDP arrived after 1.23 ms. UDP delivered 93.7 messages a second.");
    assert_eq!(of(0.3), "On average UDP arrived after about 1.2 ms. UDP delivered about 94 messages a second.");
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(f64::NAN), Just(f64::INFINITY), any::<f64>(), 1e-3f64..1e9, 80.0f64..100.0]
}

/// The numbers of a text, thousands parted or not.
fn numbers(text: &str) -> BTreeSet<String> {
    let words =
        text.split([' ', '(', ')', ':', ';', ',']).map(|word| word.trim_end_matches('.').replace('\u{2009}', ""));
    words.filter(|word| word.parse::<f64>().is_ok_and(f64::is_finite)).collect()
}

proptest! {
    /// Whatever was measured and however it is called, there is a short answer, and a picture that is a document.
    #[test]
    fn there_is_always_a_short_answer(
        cells in proptest::collection::vec((0usize..5, 0usize..5, 0usize..3, value(), value(), 0.0f64..2.0, any::<bool>()), 0..40),
        names in proptest::collection::vec(".{0,60}", 3),
        kind in prop_oneof![Just(ChartKind::Lines), Just(ChartKind::Heatmap), Just(ChartKind::Time), Just(ChartKind::Distribution)],
        with_charts: bool,
    ) {
        let losses = ["0%", "0.1%", "5%", "20%", &names[0]];
        let words = ["udp", "tcp", "quic", "quic-datagram", &names[1]];
        let sizes = ["1", "15kB", &names[2]];
        let records: Vec<Record> = cells.iter().map(|&(loss, word, size, rate, delay, half, valid)| {
            let axes = [("path.loss", losses[loss]), ("traffic.transport", words[word]), (&*names[0], sizes[size])];
            let mut record = record(&axes, words[word], [rate, delay], half);
            record.row.valid = valid;
            record
        }).collect();
        let mut manifest = fixture::manifest();
        manifest.charts.iter_mut().for_each(|chart| {
            *chart = Chart { kind, value: chart.y.clone(), title: names[1].clone(), ..chart.clone() };
        });
        if !with_charts {
            manifest.charts.clear();
        }
        let found = headline(&manifest, &records);
        prop_assert!((1..=400).contains(&found.answer.chars().count()), "{}", found.answer);
        prop_assert!(!found.answer.contains(char::is_control), "{:?}", found.answer);
        if let Some(svg) = found.picture() {
            prop_assert!(svg.ends_with("</svg>\n") && !svg.contains("NaN") && !svg.contains("=\"inf"));
        }
        prop_assert!(found.blocks(80).iter().all(|line| line.chars().count() <= 80));
    }

    /// Where all intervals overlap nothing is said to be less; where something is said, they are apart.
    #[test]
    fn no_crossing_where_intervals_overlap(
        rates in proptest::collection::vec(((50.0f64..100.0, 0.0f64..0.3), (20.0f64..100.0, 0.0f64..0.3)), 1..8),
    ) {
        let rates: Vec<[(f64, f64); 2]> = rates.into_iter().map(|(udp, tcp)| [udp, tcp]).collect();
        let text = answer(&pairs(&rates));
        let ends = |(rate, half): (f64, f64)| (rate * (1.0 - half), rate * (1.0 + half));
        let apart = |pair: &[(f64, f64); 2]| {
            let [(udp_low, udp_high), (tcp_low, tcp_high)] = pair.map(ends);
            if udp_high < tcp_low { -1 } else if tcp_high < udp_low { 1 } else { 0 }
        };
        let signs: Vec<i32> = rates.iter().map(apart).collect();
        if signs.iter().all(|sign| *sign == 0) {
            prop_assert!(!text.contains("less") && !text.contains("more than"), "{text}");
        }
        if let Some((_, rest)) = text.split_once("rom ").filter(|(_, rest)| rest.contains(" on")) {
            let from: usize = rest.split(' ').next().unwrap().parse().unwrap();
            let less = if text.contains("TCP delivered less") || text.contains("TCP still") { 1 } else { -1 };
            prop_assert!(signs[from..].iter().all(|sign| *sign == less), "{text} {signs:?}");
        }
        if text.contains("t every loss TCP delivered less") {
            prop_assert!(signs.iter().all(|sign| *sign == 1), "{text} {signs:?}");
        }
    }

    /// Every number is one of the run, to three digits or, after `about`, to two.
    #[test]
    fn every_number_is_in_the_data(
        cells in proptest::collection::vec((1e-2f64..1e6, 1.0f64..1e8, 0.0f64..0.5), 2..24),
        transports in 1usize..5,
    ) {
        let names = ["udp", "tcp", "quic", "sctp"];
        let records: Vec<Record> = cells.iter().enumerate().map(|(index, &(rate, delay, half))| {
            let (loss, name) = (format!("{}%", index / transports), names[index % transports]);
            record(&[("path.loss", &loss), ("traffic.transport", name)], name, [rate, delay], half)
        }).collect();
        let mut known = BTreeSet::new();
        for (index, (rate, delay, _)) in cells.iter().enumerate() {
            known.insert((index / transports).to_string());
            for text in [format::short(*rate), format::duration(*delay)] {
                known.extend(numbers(&text));
            }
            let cut = |value: f64| format!("{value:.1e}").parse::<f64>().unwrap();
            known.extend(numbers(&format!("{} {}", format::short(cut(*rate)), format::duration(cut(*delay)))));
        }
        let text = answer(&records);
        let unknown: Vec<String> = numbers(&text).into_iter().filter(|number| !known.contains(number)).collect();
        prop_assert!(unknown.is_empty(), "{unknown:?} in {text}");
    }
}

/// Further cells of a scenario that sweeps nothing.
#[test]
fn cells_without_axes_have_their_names() {
    let mut records = [[93.0, 2120.0], [93.0, 9110.0]].map(|values| record(&[], "udp", values, 0.01)).to_vec();
    records[0].row.cell = "base".into();
    records[1].row.cell = "slower".into();
    let told = answer(&records);
    assert!(told.contains("base arrived after 2.12 ms") && told.contains("slower after 9.11 ms"), "{told}");
    assert!(!told.contains("at  ") && !told.contains(" at ."), "{told}");
}
