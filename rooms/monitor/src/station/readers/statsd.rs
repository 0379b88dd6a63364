//! StatsD: `name:value|g`, `|c`, `|ms`, `|h`, `|d`, with `@rate`, `#tags` and `Ttime` of its dialects.

use std::collections::BTreeMap;

use super::{Look, Unit, Unreadable, put_tags, time};

/// Remembers the last state of each name: a gauge's value, what a counter was counted up to since the start, a timer's last value.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statsd {
    tags: Option<Vec<String>>,
    states: BTreeMap<String, State>,
    /// Whether there is something to flush.
    pub has_news: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct State {
    kind: &'static str,
    value: f64,
    /// Whether it was shown as it is.
    is_shown: bool,
}

/// What is said of a value behind it.
#[derive(Clone, Copy)]
struct About<'a> {
    kind: &'a str,
    rate: f64,
    tags: &'a str,
    /// What is not shown now is shown by [`Statsd::flush`].
    at: Option<i64>,
}

impl Statsd {
    /// `tags`: those that are in names; `None`: all.
    pub fn new(tags: Option<Vec<String>>) -> Self {
        Self { tags, ..Self::default() }
    }

    /// Reads a line: `name:value|kind`, several values with one kind (`1:2|c`) or each with its own (`1|c:2|c`). What has a time is shown
    /// at once. Sets are not values.
    pub(super) fn line(&mut self, line: &str, look: &mut Look<'_>) -> Result<(), Unreadable> {
        let (name, rest) = line.split_once(':').filter(|(name, _)| !name.is_empty()).ok_or(WRONG)?;
        let mut parts = rest.split('|');
        let mut values = parts.next().ok_or(WRONG)?;
        loop {
            let (kind, mut next) = split(parts.next().ok_or(WRONG)?);
            let mut about = About { kind, rate: 1.0, tags: "", at: None };
            while next.is_none()
                && let Some(part) = parts.next()
            {
                if let Some(text) = part.strip_prefix('@') {
                    let (rate, behind) = split(text);
                    about.rate = rate.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1.0).ok_or(WRONG)?;
                    next = behind;
                } else if let Some(tags) = part.strip_prefix('#') {
                    about.tags = tags;
                } else if let Some(text) = part.strip_prefix('T') {
                    about.at = Some(time(text, Some(Unit::S)).ok_or(WRONG)?);
                }
            }
            values.split(':').try_for_each(|value| self.take(name, value, about, look))?;
            match next {
                Some(next) => values = next,
                None => return Ok(()),
            }
        }
    }

    fn take(&mut self, name: &str, text: &str, about: About<'_>, look: &mut Look<'_>) -> Result<(), Unreadable> {
        let kind = match about.kind {
            "c" => "counter",
            "g" => "gauge",
            "ms" | "h" | "d" => "timer",
            "s" => return Ok(()),
            _ => return Err(WRONG),
        };
        let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite()).ok_or(WRONG)?;
        let full = |suffix: &str| {
            let mut full = format!("{name}{suffix}");
            let tags = about.tags.split(',').filter(|tag| !tag.is_empty()).map(str::to_owned).collect();
            put_tags(&mut full, tags, self.tags.as_deref(), ':');
            full
        };
        let mut key = full("");
        if self.states.get(&key).is_some_and(|state| state.kind != kind) {
            key = full(&format!(".{kind}"));
        }
        if self.states.len() >= MOST_NAMES && !self.states.contains_key(&key) {
            return Err(WRONG);
        }
        let state = self.states.entry(key.clone()).or_insert(State { kind, value: 0.0, is_shown: true });
        let sum = match kind {
            "counter" => state.value + value / about.rate,
            "gauge" if text.starts_with(['+', '-']) => state.value + value,
            _ => value,
        };
        state.value = Some(sum).filter(|sum| sum.is_finite()).ok_or(WRONG)?;
        state.is_shown = about.at.is_some();
        self.has_news |= !state.is_shown;
        if state.is_shown {
            look(&key, about.at, state.value);
        }
        Ok(())
    }

    /// Shows the state of each name that has changed.
    pub fn flush(&mut self, look: &mut Look<'_>) {
        self.has_news = false;
        for (name, state) in self.states.iter_mut().filter(|(_, state)| !state.is_shown) {
            state.is_shown = true;
            look(name, None, state.value);
        }
    }
}

/// A part, and the next value that follows it at once.
fn split(part: &str) -> (&str, Option<&str>) {
    part.split_once(':').map_or((part, None), |(part, next)| (part, Some(next)))
}

const WRONG: Unreadable = Unreadable("StatsD");

/// Four times as many channels as a station has by default.
const MOST_NAMES: usize = 4096;
