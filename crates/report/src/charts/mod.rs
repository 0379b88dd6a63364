//! Charts of a run, as SVG.
//!
//! Each cell is a point: filled if measured, hollow and pale if not valid, a hollow diamond if published. The 95 %
//! interval is a band along a line, or whiskers without a line. Many ordered lines have ordered colours. A 0 on a
//! logarithmic axis is a triangle at its floor.

mod axis;
mod heatmap;
mod lines;
mod palette;
mod plot;
mod svg;
mod time;

use crate::cells::Cell;
use crate::columns::Columns;
use crate::record::{Chart, ChartKind, Published};

pub(crate) use self::lines::{Arranged, Line};
pub(crate) use self::plot::Point;
pub(crate) use self::svg::escape;

const WIDTH: f64 = 760.0;

/// Colours of series, see `svg::STYLE`.
const COLOURS: usize = 7;

/// Draws a chart over the cells of a run. Extra cells are left out, unless the chart selects one by name.
pub fn render(chart: &Chart, cells: &[Cell<'_>], published: Option<&Published>) -> String {
    let cells: Vec<Cell<'_>> = cells.iter().filter(|cell| cell.is_in(&chart.selection)).cloned().collect();
    match chart.kind {
        ChartKind::Lines => lines::plot(chart, &cells, published).render(),
        ChartKind::Heatmap => heatmap::render(chart, &cells),
        ChartKind::Time => time::over_time(chart, &cells).render(),
        ChartKind::Distribution => time::distribution(chart, &cells).render(),
    }
}

/// The lines of a chart of kind `lines`, without published values.
pub(crate) fn arranged(chart: &Chart, cells: &[Cell<'_>]) -> Arranged {
    let cells: Vec<Cell<'_>> = cells.iter().filter(|cell| cell.is_in(&chart.selection)).cloned().collect();
    lines::arrange(chart, &cells, None)
}

fn known<'a>(cells: &[Cell<'a>]) -> Columns<'a> {
    cells.first().map(|cell| cell.columns).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::{Record, Row, Scale};
    use crate::{cells, fixture};

    fn draw(chart: &Chart, records: &[Record]) -> String {
        render(chart, &cells::group(Columns::default(), records), fixture::manifest().published.as_ref())
    }

    #[test]
    fn a_small_chart() {
        let chart = &fixture::manifest().charts[1];
        let kept = ["0%/udp", "20%/udp", "10%/tcp", "17%/tcp", "20%/tcp"];
        let records: Vec<Record> =
            fixture::records().into_iter().filter(|r| kept.contains(&r.row.cell.as_str())).collect();
        insta::assert_snapshot!(draw(chart, &records));
    }

    #[test]
    fn further_columns_have_lines_beside_those_of_y() {
        let chart = &fixture::manifest().charts[0];
        let alone = draw(chart, &fixture::records());
        let beside = [("delay_max_us".to_owned(), "largest".to_owned())].into();
        let both = draw(&Chart { beside, ..chart.clone() }, &fixture::records());
        for name in ["udp · largest", "tcp · largest"] {
            let entry = format!(">{name}</text>");
            assert!(both.contains(&entry) && !alone.contains(&entry), "{name}");
        }
        let points = |drawn: &str| drawn.matches("</title></circle>").count();
        assert_eq!(points(&both), 2 * points(&alone));
    }

    #[test]
    fn many_numbers_go_from_light_to_dark_and_zero_has_a_floor() {
        let records = fixture::matrix_records();
        let drawn = draw(&fixture::matrix_manifest().charts[1], &records);
        assert!(drawn.contains("loss_pct from 0 % to 50 %") && drawn.contains(">0 %</text>"));
        assert!(drawn.contains("50 %, 100 ms: 0 Mbit/s"), "{drawn}");
        assert_eq!(drawn.matches("not valid</title>").count(), 1);
        assert!(!drawn.contains("baseline"));
    }

    #[test]
    fn a_heat_map_has_a_field_for_each_cell() {
        let mut records = fixture::matrix_records();
        records.remove(3);
        let drawn = draw(&fixture::matrix_manifest().charts[0], &records);
        assert_eq!(drawn.matches("</title></rect>").count(), 265);
        assert_eq!(drawn.matches("class=\"empty\"").count(), 1, "the missing one is an empty frame");
        assert!(drawn.contains("<title>50 %, 100 ms: 0 Mbit/s</title>"));
        assert!(drawn.contains("<title>10 %, 40 ms: ") && drawn.contains(", not valid</title>"));
        assert!(drawn.contains("nothing got through"));
    }

    /// A browser takes seconds for thousands of elements.
    #[test]
    fn a_crowded_heat_map_has_an_element_for_each_colour() {
        let (manifest, records) = fixture::large(fixture::Shape::Bulk, 2500);
        let drawn = draw(&manifest.charts[0], &records);
        let fields: usize =
            drawn.lines().filter(|line| line.starts_with("<path")).map(|line| line.matches('z').count()).sum();
        assert_eq!(fields, 2500, "each field is drawn");
        assert!(drawn.lines().count() < 500 && !drawn.contains("<title>0 %"), "{}", drawn.lines().count());
    }

    #[test]
    fn a_chart_over_time_draws_the_selected_cell() {
        let records = fixture::matrix_records();
        let chart = &fixture::matrix_manifest().charts[3];
        let drawn = draw(chart, &records);
        for heading in ["Received, Mbit/s", "Congestion window", "Smoothed round-trip time", "Retransmitted segments"] {
            assert!(drawn.contains(&format!(">{heading}</text>")), "{heading}");
        }
        assert_eq!(drawn.matches("<path ").count(), 5);
        let one = Chart { quantities: vec!["cwnd_bytes".into()], ..chart.clone() };
        assert_eq!(draw(&one, &records).matches("<path ").count(), 1);
        let all = Chart { selection: std::collections::BTreeMap::new(), ..one };
        assert!(draw(&all, &records).contains("244 more are not shown"), "266 cells, one without, 21 drawn");
        assert!(draw(&all, &fixture::records()).contains("nothing was sampled"));
    }

    #[test]
    fn words_make_places_and_other_axes_make_lines() {
        let records: Vec<Record> = [("udp", "off"), ("tcp", "off"), ("tcp", "on")]
            .map(|(transport, nagle)| Record {
                row: Row { cell: format!("{transport}/{nagle}"), valid: true, msgs_per_s: 90.0, ..Row::default() },
                axes: vec![("transport".into(), transport.into()), ("nagle".into(), nagle.into())],
                ..Record::default()
            })
            .into();
        let chart = Chart { x: "mode".into(), series: "transport".into(), ..fixture::manifest().charts[0].clone() };
        let drawn = draw(&chart, &records);
        assert!(drawn.contains("nothing was measured") || drawn.contains("published"), "{drawn}");
        let rows: Vec<Record> = records
            .into_iter()
            .map(|mut r| {
                r.row.transport = r.axes[0].1.clone();
                r
            })
            .collect();
        let drawn = draw(&Chart { x: "transport".into(), series: "scenario".into(), ..chart }, &rows);
        assert!(drawn.contains(">udp</text>") && drawn.contains(" · on</text>") && drawn.contains(" · off</text>"));
    }

    #[test]
    fn text_is_escaped() {
        let chart = Chart { title: "<script>&\"".into(), ..fixture::manifest().charts[0].clone() };
        let drawn = draw(&chart, &fixture::records());
        assert!(!drawn.contains("<script") && drawn.contains("&lt;script&gt;&amp;&quot;"));
    }

    proptest! {
        /// Whatever is measured, the chart is a document with finite lengths.
        #[test]
        fn no_value_spoils_a_chart(
            values in proptest::collection::vec(prop_oneof![
                Just(None), Just(Some(0.0)), Just(Some(f64::NAN)), Just(Some(f64::INFINITY)), Just(Some(5.0)),
                any::<f64>().prop_map(Some), (1e-3f64..1e9).prop_map(Some),
            ], 0..6),
            log: bool,
            published: bool,
        ) {
            let records: Vec<Record> = values.iter().enumerate().map(|(index, value)| Record {
                row: Row {
                    cell: index.to_string(),
                    loss_pct: if index % 3 == 2 { f64::NAN } else { 2.0 },
                    delay_mean_us: *value,
                    valid: index != 1,
                    ..Row::default()
                },
                ..Record::default()
            }).collect();
            let manifest = fixture::manifest();
            let scale = if log { Scale::Log } else { Scale::Linear };
            let chart = Chart { scale, ..manifest.charts[1].clone() };
            let theirs = manifest.published.as_ref().filter(|_| published);
            let drawn = render(&chart, &cells::group(Columns::default(), &records), theirs);
            prop_assert!(drawn.ends_with("</svg>\n"));
            prop_assert!(!drawn.contains("NaN") && !drawn.contains("=\"inf"));
        }
    }
}
