//! A sine whose samples are the messages, as it arrived: what is lost are stretches, not points.

use weir_units::format;

use super::{FAINT, INK, LEFT, RIGHT, WIDTH, colour};
use crate::cells::Cell;
use crate::record::{Chart, Record, Signal};
use crate::svg::{Anchor, Svg};

const PANEL: f64 = 110.0;
const BETWEEN: f64 = 62.0;
const TOP: f64 = 92.0;
/// More panels than this are no chart.
const MOST_PANELS: usize = 8;
/// Points of the line, from one pixel to the next at most.
const POINTS: usize = 1400;

/// Draws a chart of kind `signal`.
pub(super) fn render(chart: &Chart, cells: &[Cell<'_>]) -> String {
    let records = cells.iter().flat_map(|cell| &cell.records);
    let panels: Vec<(&Record, &Signal)> =
        records.filter_map(|record| Some((*record, record.signal.as_ref()?))).take(MOST_PANELS).collect();
    let height = TOP + panels.len().max(1) as f64 * (PANEL + BETWEEN) + 10.0;
    let mut svg = Svg::new(WIDTH, height);
    svg.rect((0.5, 0.5), (WIDTH - 1.0, height - 1.0), 10.0, "fill=\"#ffffff\" stroke=\"#d1d9e0\"");
    svg.text((24.0, 34.0), 17.0, Anchor::Start, &format!("font-weight=\"600\" {INK}"), &chart.title);
    let label = if chart.as_arrived {
        "one sample that arrived behind the other, as who knows of no gaps draws them"
    } else {
        "each message is a sample of a sine of 50 Hz; red: what is lost of it"
    };
    svg.text((24.0, 55.0), 13.0, Anchor::Start, FAINT, if chart.y_label.is_empty() { label } else { &chart.y_label });
    if panels.is_empty() {
        svg.text((WIDTH / 2.0, TOP + PANEL / 2.0), 14.0, Anchor::Middle, FAINT, "nothing was watched");
    }
    for (index, (record, signal)) in panels.iter().enumerate() {
        let top = TOP + 22.0 + index as f64 * (PANEL + BETWEEN);
        let draw = if chart.as_arrived { draw_as_arrived } else { draw };
        draw(&mut svg, record, signal, top);
    }
    svg.finish(&chart.title, "a sine as it arrived, its lost stretches marked")
}

fn draw(svg: &mut Svg, record: &Record, signal: &Signal, top: f64) {
    let lost: u64 = signal.missing.iter().map(|(_, length)| length).sum();
    let longest = signal.missing.iter().map(|(_, length)| *length).max().unwrap_or(0);
    let span = |samples: u64| format::duration(samples as f64 * signal.interval_s * 1e6);
    let heading = format!("{} from {} on", record.row.cell, span(signal.first));
    svg.text((24.0, top - 12.0), 12.0, Anchor::Start, &format!("font-weight=\"600\" {FAINT}"), &heading);
    let count = |n: u64| format::count(i64::try_from(n).unwrap_or(i64::MAX));
    let said = match lost {
        0 => format!("{} samples, none lost", count(signal.samples)),
        _ => {
            let lost_at = signal.cause.as_ref().map(|cause| format!(" at: {cause}")).unwrap_or_default();
            let (lost, samples) = (count(lost), count(signal.samples));
            format!("{lost} of {samples} samples lost{lost_at}, the longest stretch {}", span(longest))
        }
    };
    svg.text((WIDTH - RIGHT, top - 12.0), 11.0, Anchor::End, FAINT, &said);
    let across = |sample: f64| LEFT + sample / signal.samples.max(1) as f64 * (WIDTH - RIGHT - LEFT);
    let (middle, height) = (top + PANEL / 2.0, PANEL / 2.0 - 6.0);
    let at = |sample: f64| {
        let angle = (signal.first as f64 + sample) * signal.interval_s / signal.period_s * std::f64::consts::TAU;
        (across(sample), middle - height * angle.sin())
    };
    for (begin, end) in bands(&signal.missing, signal.samples as f64 / POINTS as f64) {
        let (left, right) = (across(begin), across(end));
        svg.rect((left, top), ((right - left).max(0.6), PANEL), 0.0, "fill=\"#d55e00\" fill-opacity=\"0.25\"");
    }
    svg.line((LEFT, middle), (WIDTH - RIGHT, middle), "stroke=\"#e6eaef\"");
    let sent = curve(0.0, signal.samples as f64, signal.samples, &at);
    svg.path(&sent, false, "fill=\"none\" stroke=\"#c4ccd4\" stroke-width=\"1\" stroke-dasharray=\"3 3\"");
    for (begin, end) in arrived(signal) {
        let through = curve(begin as f64, (end - 1) as f64, signal.samples, &at);
        let style = format!("fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"", colour(0));
        if through.len() > 1 {
            svg.path(&through, false, &style);
        } else {
            svg.circle(at(begin as f64), 0.8, &format!("fill=\"{}\"", colour(0)), "");
        }
    }
    scale(svg, signal, top);
}

/// What arrived, joined: neither where something is missing can be seen, nor that it is.
fn draw_as_arrived(svg: &mut Svg, record: &Record, signal: &Signal, top: f64) {
    let span = |samples: u64| format::duration(samples as f64 * signal.interval_s * 1e6);
    let heading = format!("{} from {} on", record.row.cell, span(signal.first));
    svg.text((24.0, top - 12.0), 12.0, Anchor::Start, &format!("font-weight=\"600\" {FAINT}"), &heading);
    let (middle, height) = (top + PANEL / 2.0, PANEL / 2.0 - 6.0);
    svg.line((LEFT, middle), (WIDTH - RIGHT, middle), "stroke=\"#e6eaef\"");
    let mut drawn = Vec::new();
    let mut before = 0;
    for (begin, end) in arrived(signal) {
        // So many samples earlier than they were.
        let at = |sample: f64| {
            let angle = (signal.first as f64 + sample) * signal.interval_s / signal.period_s * std::f64::consts::TAU;
            let place = sample - begin as f64 + before as f64;
            (LEFT + place / signal.samples.max(1) as f64 * (WIDTH - RIGHT - LEFT), middle - height * angle.sin())
        };
        drawn.extend(curve(begin as f64, (end - 1) as f64, signal.samples, &at));
        before += end - begin;
    }
    svg.path(&drawn, false, &format!("fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"", colour(0)));
    scale(svg, signal, top);
}

fn scale(svg: &mut Svg, signal: &Signal, top: f64) {
    let across = |sample: f64| LEFT + sample / signal.samples.max(1) as f64 * (WIDTH - RIGHT - LEFT);
    let bottom = top + PANEL + 16.0;
    for quarter in 0..=4 {
        let sample = signal.samples as f64 * f64::from(quarter) / 4.0;
        let text = format::duration(sample * signal.interval_s * 1e6);
        svg.text((across(sample), bottom), 11.0, Anchor::Middle, FAINT, &text);
    }
}

/// The runs of samples that arrived: the first, and the one behind the last.
fn arrived(signal: &Signal) -> Vec<(u64, u64)> {
    let begins = std::iter::once(0).chain(signal.missing.iter().map(|(begin, length)| begin + length));
    let ends = signal.missing.iter().map(|(begin, _)| *begin).chain([signal.samples]);
    begins.zip(ends).filter(|(begin, end)| begin < end).collect()
}

/// Gaps as bands; neighbours nearer than `least` are drawn as one, for they could not be told apart.
fn bands(missing: &[(u64, u64)], least: f64) -> Vec<(f64, f64)> {
    let mut bands: Vec<(f64, f64)> = Vec::new();
    for (begin, length) in missing {
        let (begin, end) = (*begin as f64, (begin + length) as f64);
        match bands.last_mut() {
            Some((_, last)) if begin - *last < least => *last = end,
            _ => bands.push((begin, end)),
        }
    }
    bands
}

/// Points of the sine between two samples, no more than can be seen.
fn curve(begin: f64, end: f64, samples: u64, at: &dyn Fn(f64) -> (f64, f64)) -> Vec<(f64, f64)> {
    let share = (end - begin) / samples.max(1) as f64;
    let points = ((share * POINTS as f64).ceil() as usize).min((end - begin).ceil() as usize);
    if points == 0 {
        return vec![at(begin)];
    }
    (0..=points).map(|point| at(begin + (end - begin) * point as f64 / points as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signal(missing: &[(u64, u64)]) -> Signal {
        Signal { interval_s: 1e-4, period_s: 0.02, first: 10, samples: 2000, missing: missing.to_vec(), cause: None }
    }

    #[test]
    fn what_arrived_lies_between_the_gaps() {
        assert_eq!(arrived(&signal(&[])), [(0, 2000)]);
        assert_eq!(arrived(&signal(&[(0, 5), (7, 1), (1990, 10)])), [(5, 7), (8, 1990)]);
        assert_eq!(arrived(&signal(&[(0, 2000)])), []);
        assert_eq!(bands(&[(0, 5), (7, 1), (100, 10)], 3.0), [(0.0, 8.0), (100.0, 110.0)]);
    }

    #[test]
    fn lost_stretches_are_marked_and_told() {
        let record = |missing: &[(u64, u64)]| Record { signal: Some(signal(missing)), ..Record::default() };
        let (lossy, whole) = (record(&[(500, 400), (1500, 1)]), record(&[]));
        let cell = |record| Cell { name: "cell", records: vec![record], beside: false };
        let chart = Chart { title: "A sine".into(), ..Chart::default() };
        let drawn = render(&chart, &[cell(&lossy)]);
        let said = format!("401 of {} samples lost, the longest stretch 40 ms", format::count(2000));
        assert!(drawn.contains(&said), "{drawn}");
        assert_eq!((drawn.matches("fill-opacity").count(), drawn.matches("<path ").count()), (2, 4));
        let drawn = render(&chart, &[cell(&whole)]);
        assert!(drawn.contains("none lost") && !drawn.contains("fill-opacity"));
        assert!(render(&chart, &[]).contains("nothing was watched"));
        // One curve without a mark, shorter by what is missing.
        let chart = Chart { as_arrived: true, ..chart };
        let drawn = render(&chart, &[cell(&lossy)]);
        assert_eq!((drawn.matches("fill-opacity").count(), drawn.matches("<path ").count()), (0, 1));
    }
}
