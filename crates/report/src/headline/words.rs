//! Names, places and values as a sentence has them.

use weir_units::format;

use super::reading::Point;
use crate::{cells::Measured, columns};

/// What a course is of: `UDP`, `TCP with queue 15 kB`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Label {
    /// Names that speak for themselves.
    subject: String,
    /// Further axes, by the noun of their key: key, value.
    with: Vec<(String, String)>,
}

/// Axes whose values speak for themselves, by the last word of their key.
const NAMES: [&str; 3] = ["transport", "congestion", "engine"];

/// The longest name.
const LONGEST: usize = 40;

impl Label {
    /// What differs between courses, axis key and value; without any name among them it is the `transport`'s.
    pub(super) fn new(transport: &str, axes: &[(&str, String)]) -> Self {
        let speaks = |key: &str| NAMES.contains(&noun(key).as_str());
        let (names, with): (Vec<_>, Vec<_>) = axes.iter().partition(|(key, _)| speaks(key));
        let names: Vec<String> = names.into_iter().map(|(_, value)| name(value)).collect();
        let alone = with.first().is_some_and(|(key, _)| *key == columns::RECEIVER);
        let subject = match names.is_empty() {
            true if alone => String::new(),
            true => name(transport),
            false => names.join(" "),
        };
        Self { subject, with: with.into_iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect() }
    }

    /// Of a cell that no axis tells from others.
    pub(super) fn of_cell(name: &str) -> Self {
        Self { subject: clipped(name), with: Vec::new() }
    }

    /// Whether it is of this value of this axis.
    pub(super) fn has(&self, key: &str, value: &str) -> bool {
        self.with.iter().any(|(own, its)| own == key && its == value)
    }

    fn text(&self) -> String {
        let with: Vec<String> = self.with.iter().map(|(key, value)| further(key, &[value])).collect();
        joined(&self.subject, &with.join(", "))
    }
}

/// Several labels as one name: `UDP and TCP`, `UDP with 1 and 4 streams`.
pub(super) fn names(labels: &[Label]) -> String {
    let same = |label: &Label| match (&labels[0].with[..], &label.with[..]) {
        ([(a, _)], [(b, _)]) => a == b && label.subject == labels[0].subject,
        _ => false,
    };
    if labels.len() > 1 && labels.iter().all(same) {
        let values: Vec<&str> = labels.iter().map(|label| label.with[0].1.as_str()).collect();
        return joined(&labels[0].subject, &further(&labels[0].with[0].0, &values));
    }
    listed(&labels.iter().map(Label::text).collect::<Vec<_>>())
}

fn joined(subject: &str, with: &str) -> String {
    clipped(&match (subject.is_empty(), with.is_empty()) {
        (_, true) => subject.to_owned(),
        (true, false) => with.to_owned(),
        (false, false) => format!("{subject} with {with}"),
    })
}

/// Values of a further axis: `15 kB queue`, `4 streams`, `default buffer`, but `burst 16`, `nodelay true`.
fn further(key: &str, values: &[impl AsRef<str>]) -> String {
    let noun = noun(key);
    let words: Vec<String> = values.iter().map(|value| quantity(value.as_ref())).collect();
    let several = if words.len() > 1 && key == columns::RECEIVER { "s" } else { "" };
    let has_unit = words.iter().all(|word| word.contains(' ') || word == "default");
    let is_number = words.iter().all(|word| word.parse::<f64>().is_ok());
    if has_unit || (is_number && is_plural(&noun)) {
        let one = words.last().is_some_and(|word| word == "1");
        let noun = if one && is_plural(&noun) { &noun[..noun.len() - 1] } else { &noun };
        format!("{} {noun}", listed(&words))
    } else {
        format!("{noun}{several} {}", listed(&words))
    }
}

fn is_plural(noun: &str) -> bool {
    noun.ends_with('s') && !noun.ends_with("ss")
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn listed(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// A protocol or an algorithm as it is written.
fn name(word: &str) -> String {
    match word {
        "quic-datagram" => "QUIC datagrams".into(),
        "udp" | "tcp" | "quic" | "cubic" | "bbr" | "bbr2" | "bbr3" | "htcp" | "dctcp" => word.to_uppercase(),
        "reno" => "Reno".into(),
        "newreno" => "NewReno".into(),
        "vegas" => "Vegas".into(),
        "westwood" => "Westwood".into(),
        _ => word.into(),
    }
}

/// A name short enough for a sentence, without control characters.
pub(super) fn clipped(text: &str) -> String {
    let text = format::printable(text);
    if text.chars().count() <= LONGEST { text } else { text.chars().take(LONGEST - 1).chain(['…']).collect() }
}

/// What an axis is called: the last word of its key, or the one before a mean.
pub(super) fn noun(key: &str) -> String {
    let mut words = key.rsplit('.');
    let last = words.next().unwrap_or(key);
    clipped(if last == "mean" { words.next().unwrap_or(last) } else { last })
}

/// An axis' value with a space before its unit: `10 %`, `15 kB`, `20 µs`.
pub(super) fn quantity(text: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim();
    if number.is_empty() || unit.is_empty() || unit.contains(|c: char| c.is_ascii_digit()) {
        return text.to_owned();
    }
    let unit = match unit {
        "us" => "µs",
        "kbit" => "kbit/s",
        "mbit" => "Mbit/s",
        "gbit" => "Gbit/s",
        other => other,
    };
    format!("{number} {unit}")
}

/// Where on the axis; the first time in a sentence it is said of what.
pub(super) fn at(noun: &str, point: &Point, first: bool) -> String {
    match noun {
        "loss" if point.x == 0.0 => "without loss".into(),
        _ if is_plural(noun) => format!("with {}", place(noun, point, first)),
        _ => format!("at {}", place(noun, point, first)),
    }
}

/// The same without its preposition.
pub(super) fn place(noun: &str, point: &Point, first: bool) -> String {
    let text = clipped(&point.place);
    match first {
        _ if noun == "loss" && point.x == 0.0 => "no loss".into(),
        true if noun == "loss" => format!("{text} loss"),
        true if is_plural(noun) => format!("{text} {noun}"),
        true if text.contains(' ') => {
            let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
            format!("{article} {noun} of {text}")
        }
        true => format!("{noun} {text}"),
        false => text,
    }
}

/// `every loss`, `every number of streams`.
pub(super) fn every(noun: &str) -> String {
    if is_plural(noun) { format!("every number of {noun}") } else { format!("every {noun}") }
}

/// How sentences speak of a column.
pub(super) struct Phrase {
    /// Before the first name, without the space.
    pub(super) lead: &'static str,
    /// Between a name and its values.
    pub(super) verb: &'static str,
    /// The last part of it, which stands before the values of further names.
    pub(super) again: &'static str,
    /// Behind the first value, where its words don't have it.
    pub(super) unit: &'static str,
}

/// The words for a column; `None`: it is called by its title.
pub(super) fn phrase(column: &str) -> Option<Phrase> {
    let phrase = |lead, verb, again, unit| Some(Phrase { lead, verb, again, unit });
    match column {
        "delay_mean_us" => phrase("on average", "arrived after", "after", ""),
        "delay_p50_us" => phrase("in the median", "arrived after", "after", ""),
        "msgs_per_s" => phrase("", "delivered", "", " messages a second"),
        "mbit_per_s" => phrase("", "carried", "", ""),
        "delivered_share" => phrase("", "delivered", "", ""),
        "lost_share" => phrase("", "lost", "", ""),
        "longest_gap" => phrase("at worst", "missed", "", " messages in a row"),
        _ => None,
    }
}

/// What stands in front of a list of values: the quantile, else the title, else what the column says.
pub(super) fn title(column: &str, title: &str) -> String {
    let of_column = || match column {
        "delay_mean_us" => "mean delay",
        "delay_p50_us" => "median delay",
        "msgs_per_s" | "mbit_per_s" | "delivered_share" => "delivered",
        "lost_share" => "lost",
        _ => column,
    };
    match title.trim_end_matches(['.', ':']) {
        _ if column == "delay_p99_us" => "99 % of the messages arrived within".into(),
        "" => format!("{}:", of_column()),
        title => format!("{}:", format::printable(title)),
    }
}

/// The value of one point, or from where to where those lie that are alike.
pub(super) fn value(column: &str, point: &Point) -> String {
    let alike = range(column, point.least, point.most);
    match alike.contains(" to ") || is_sure(&point.measured) {
        true => alike,
        false => format!("about {}", exact(column, rounded(point.least))),
    }
}

/// To two significant digits.
fn rounded(value: f64) -> f64 {
    format!("{value:.1e}").parse().unwrap_or(value)
}

/// A value with a unit that its column's words don't have.
pub(super) fn with_unit(value: &str, unit: &str) -> String {
    let unit = if value == "1" { unit.replacen("messages", "message", 1) } else { unit.to_owned() };
    format!("{value}{unit}")
}

/// A rate behind another one does without its unit; a share does not, beside places that are shares, nor a delay.
pub(super) fn bare(value: &str) -> String {
    value.strip_suffix(" Mbit/s").unwrap_or(value).to_owned()
}

/// Values between two: the unit once.
pub(super) fn range(column: &str, low: f64, high: f64) -> String {
    let (low, high) = (exact(column, low), exact(column, high));
    match (low.split_once(' '), high.split_once(' ')) {
        _ if low == high => low,
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// A value of a column.
pub(super) fn exact(column: &str, value: f64) -> String {
    if column.ends_with("_share") && value.is_finite() {
        return format!("{} %", format::short(value * 100.0));
    }
    columns::words(column, value)
}

/// Whether the interval is narrow enough for the value to stand alone: within a fifth of it.
fn is_sure(measured: &Measured) -> bool {
    const ABOUT: f64 = 0.2;
    match measured.interval(0.95) {
        _ if measured.value() == 0.0 => true,
        Some((value, low, high)) => (high - value).max(value - low) <= ABOUT * value.abs(),
        None => false,
    }
}

pub(super) fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
