//! StatsD: `name:value|g`, `|c`, `|ms`, `|h`, `|d`, with `@rate` and `#tags` of its dialects.

use std::collections::HashMap;

use super::Unreadable;

/// Remembers counters and gauges, which are told as changes.
#[derive(Clone, Debug, Default)]
pub struct Statsd {
    values: HashMap<String, f64>,
    name: String,
}

impl Statsd {
    /// Reads a line. A gauge has its value, a counter what it was counted up to since the start (divided by its sampling rate), a timer,
    /// histogram or distribution each value as it comes. Sets are no values. StatsD has no times.
    ///
    /// # Errors
    /// It is no such line; there are more than 4,096 counters and gauges.
    pub fn line(&mut self, line: &str, mut look: impl FnMut(&str, Option<i64>, f64)) -> Result<(), Unreadable> {
        let wrong = Unreadable("StatsD");
        let line = line.trim();
        if line.is_empty() {
            return Ok(());
        }
        let (name, rest) = line.split_once(':').filter(|(name, _)| !name.is_empty()).ok_or(wrong)?;
        let mut parts = rest.split('|');
        let (Some(values), Some(kind)) = (parts.next(), parts.next()) else { return Err(wrong) };
        let (mut rate, mut tags) = (1.0, "");
        for part in parts {
            if let Some(written) = part.strip_prefix('@') {
                rate = written.parse().ok().filter(|rate| *rate > 0.0 && *rate <= 1.0).ok_or(wrong)?;
            } else if let Some(written) = part.strip_prefix('#') {
                tags = written;
            }
        }
        self.name.clear();
        self.name.push_str(name);
        if !tags.is_empty() {
            self.name.extend(["{", tags, "}"]);
        }
        // Dialects put several values in a line.
        for text in values.split(':') {
            let value: f64 = text.parse().map_err(|_| wrong)?;
            match kind {
                "c" => *self.remembered(wrong)? += value / rate,
                "g" if text.starts_with(['+', '-']) => *self.remembered(wrong)? += value,
                "g" => *self.remembered(wrong)? = value,
                "ms" | "h" | "d" => {
                    look(&self.name, None, value);
                    continue;
                }
                "s" => continue,
                _ => return Err(wrong),
            }
            look(&self.name, None, self.values.get(&self.name).copied().unwrap_or(f64::NAN));
        }
        Ok(())
    }

    fn remembered(&mut self, wrong: Unreadable) -> Result<&mut f64, Unreadable> {
        if !self.values.contains_key(&self.name) {
            if self.values.len() >= MOST_NAMES {
                return Err(wrong);
            }
            self.values.insert(self.name.clone(), 0.0);
        }
        self.values.get_mut(&self.name).ok_or(wrong)
    }
}

const MOST_NAMES: usize = 4096;
