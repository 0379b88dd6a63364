//! Losses in words, at a rate that people can read: at most one line for each thing and reason in an interval.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How much one thing has lost for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The thing: `destination siem 10.0.0.5:514`. No two have the same subject and reason.
    pub subject: String,
    /// Why: the label that metrics have.
    pub reason: &'static str,
    /// What to do, or what it means.
    pub remedy: &'static str,
    /// What is lost, one of them: a datagram, mostly.
    pub unit: &'static str,
    /// How many of them were lost since the start.
    pub total: u64,
}

/// A line to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// Something is being lost: a warning.
    Lost(String),
    /// It is no more.
    Recovered(String),
}

/// Turns growing counts into lines. Pure: the caller reads the clock and the counts.
#[derive(Debug)]
pub struct Losses {
    interval: Duration,
    /// When counts were last looked at.
    before: Instant,
    known: HashMap<(String, &'static str), State>,
}

#[derive(Debug)]
struct State {
    /// The count in the last line, or when all was well.
    told: u64,
    /// When the last line was given; `None`: all is well.
    since: Option<Instant>,
}

impl Losses {
    /// Counts begin at 0 at `start`; a line for each thing and reason at most once in `interval`.
    pub fn new(interval: Duration, start: Instant) -> Self {
        Self { interval, before: start, known: HashMap::new() }
    }

    /// What is to be said of the counts as they are `now`. A first loss is told at once, what follows it once in an
    /// interval, and when an interval has passed without any, that, once. Counts that went down (a reload took the thing
    /// away and brought it back) begin anew, and those of things no longer given are forgotten.
    pub fn lines(&mut self, now: Instant, losses: impl IntoIterator<Item = Loss>) -> Vec<Line> {
        let mut lines = Vec::new();
        let mut present = HashMap::with_capacity(self.known.len());
        for loss in losses {
            let key = (loss.subject.clone(), loss.reason);
            let mut state = self.known.remove(&key).unwrap_or(State { told: 0, since: None });
            if loss.total < state.told {
                state.told = 0;
            }
            let more = loss.total - state.told;
            let due = state.since.is_none_or(|since| now.duration_since(since) >= self.interval);
            if due && more > 0 {
                let span = now.duration_since(state.since.unwrap_or(self.before));
                lines.push(Line::Lost(loss.in_words(more, span)));
                state = State { told: loss.total, since: Some(now) };
            } else if due && state.since.is_some() {
                let Loss { subject, reason, unit, .. } = &loss;
                let span = in_words(self.interval);
                lines.push(Line::Recovered(format!("{subject}: no {unit} dropped for {span}: {reason} is over")));
                state.since = None;
            }
            present.insert(key, state);
        }
        self.known = present;
        self.before = now;
        lines
    }
}

impl Line {
    /// Writes it to the log.
    pub fn log(&self) {
        match self {
            Line::Lost(text) => tracing::warn!("{text}"),
            Line::Recovered(text) => tracing::info!("{text}"),
        }
    }
}

impl Loss {
    fn in_words(&self, count: u64, span: Duration) -> String {
        let Self { subject, reason, remedy, unit, .. } = self;
        let plural = if count == 1 { "" } else { "s" };
        let (count, span) = (grouped(count), in_words(span));
        format!("{subject}: {count} {unit}{plural} dropped in {span}: {reason} ({remedy})")
    }
}

/// `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Whole seconds, as people say them; below 10 s with a decimal.
fn in_words(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    let text = if seconds < 9.95 { format!("{seconds:.1}") } else { format!("{seconds:.0}") };
    format!("{} s", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn loss(subject: &str, reason: &'static str, total: u64) -> Loss {
        Loss { subject: subject.to_owned(), reason, remedy: "what to do", unit: "datagram", total }
    }

    #[test]
    fn a_loss_is_told_at_once_then_once_an_interval_then_its_end() {
        let start = Instant::now();
        let at = |tenths: u64| start + Duration::from_millis(tenths * 100);
        let mut losses = Losses::new(Duration::from_secs(10), start);
        let mut told = |tenths, total| {
            let counts = [loss("destination siem 10.0.0.5:514", "queue_full", total), loss("other", "refused", 0)];
            losses.lines(at(tenths), counts)
        };
        let lost = |text: &str| vec![Line::Lost(format!("destination siem 10.0.0.5:514: {text}"))];

        assert_eq!(told(10, 0), []);
        assert_eq!(told(15, 1), lost("1 datagram dropped in 0.5 s: queue_full (what to do)"));
        assert_eq!(told(25, 500), []);
        assert_eq!(told(114, 1000), []);
        assert_eq!(told(115, 1235), lost("1,234 datagrams dropped in 10 s: queue_full (what to do)"));
        assert_eq!(told(120, 1235), []);
        let recovered = "destination siem 10.0.0.5:514: no datagram dropped for 10 s: queue_full is over";
        assert_eq!(told(215, 1235), [Line::Recovered(recovered.into())]);
        assert_eq!(told(400, 1235), []);
        assert_eq!(told(405, 1_001_235), lost("1,000,000 datagrams dropped in 0.5 s: queue_full (what to do)"));
        // A reload began the count anew.
        assert_eq!(told(505, 7), lost("7 datagrams dropped in 10 s: queue_full (what to do)"));
        assert_eq!(told(515, 9), []);
        assert_eq!(told(605, 9), lost("2 datagrams dropped in 10 s: queue_full (what to do)"));
    }

    #[test]
    fn reasons_and_subjects_are_told_apart() {
        let start = Instant::now();
        let mut losses = Losses::new(Duration::from_secs(10), start);
        let counts = [loss("a", "queue_full", 1), loss("a", "refused", 2), loss("b", "refused", 3)];
        let lines = losses.lines(start + Duration::from_secs(2), counts.clone());
        let expected = ["a: 1 datagram dropped in 2 s: queue_full", "a: 2 datagrams dropped in 2 s: refused", "b: 3 "];
        for (line, begins) in lines.iter().zip(expected) {
            assert!(matches!(line, Line::Lost(text) if text.starts_with(begins)), "{line:?}");
        }
        assert_eq!(lines.len(), 3);
        // What is no longer there is forgotten without a word.
        assert_eq!(losses.lines(start + Duration::from_secs(60), []), []);
        assert_eq!(losses.known.len(), 0);
    }

    #[test]
    fn numbers_are_grouped() {
        for (count, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(count), text);
        }
    }

    proptest! {
        /// Whatever the counts do, lines are rare and miss nothing that was lost longer than an interval ago.
        #[test]
        fn every_loss_is_told_and_never_twice(steps in proptest::collection::vec((1_u64..8_000, 0_u64..50), 1..200)) {
            let start = Instant::now();
            let interval = Duration::from_secs(10);
            let mut losses = Losses::new(interval, start);
            let (mut now, mut total, mut told) = (start, 0, 0);
            let mut last_line: Option<Instant> = None;
            for (millis, more) in steps.into_iter().chain([(10_000, 0)]) {
                now += Duration::from_millis(millis);
                total += more;
                for line in losses.lines(now, [loss("a", "refused", total)]) {
                    if let Line::Lost(text) = line {
                        let count = text.split(' ').nth(1).unwrap().replace(',', "");
                        told += count.parse::<u64>().unwrap();
                    }
                    prop_assert!(last_line.is_none_or(|last| now - last >= interval || told == total));
                    last_line = Some(now);
                }
            }
            prop_assert_eq!(told, total);
        }
    }
}
