//! Gaps in words, at a rate that people can read: one event a station and cause in ten seconds.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use weir_service::losses::grouped;
use weir_units::format::counted;
use weir_wire::signal::Cause;

use super::events::Draft;
use crate::api::{Severity, is_loss, words};

/// Gaps that are still to be told. Pure: the caller brings time.
#[derive(Debug, Default)]
pub(super) struct Losses(HashMap<(String, Cause), Gathered>);

#[derive(Debug, Default)]
struct Gathered {
    samples: u64,
    /// Names, the first few.
    channels: BTreeSet<String>,
    /// When the first began, ns since 1970 UTC.
    time_ns: i64,
    /// When the last event was given.
    told: Option<Duration>,
}

impl Losses {
    /// A gap came.
    pub(super) fn add(&mut self, station: &str, channel: &str, cause: Cause, samples: u64, time_ns: i64) {
        // What nobody wanted is not lost; a restart has its own event.
        if !is_loss(cause) {
            return;
        }
        if self.0.len() >= MOST {
            self.0.retain(|_, gathered| gathered.samples > 0);
        }
        let key = (station.to_owned(), cause);
        if self.0.len() >= MOST && !self.0.contains_key(&key) {
            return;
        }
        let gathered = self.0.entry(key).or_default();
        if gathered.samples == 0 {
            gathered.time_ns = time_ns;
        }
        gathered.samples = gathered.samples.saturating_add(samples);
        if gathered.channels.len() < MOST_CHANNELS && !gathered.channels.contains(channel) {
            gathered.channels.insert(channel.to_owned());
        }
    }

    /// Events that are due: the first at once, the next when ten seconds have passed.
    pub(super) fn tell(&mut self, now: Duration) -> Vec<Draft> {
        let mut drafts = Vec::new();
        for ((station, cause), gathered) in &mut self.0 {
            let due = gathered.told.is_none_or(|told| now >= told + EVENTS_APART);
            if gathered.samples == 0 || !due {
                continue;
            }
            let Gathered { samples, channels, time_ns, .. } = std::mem::take(gathered);
            gathered.told = Some(now);
            let (place, remedy) = words(*cause);
            let samples = if samples == 1 { "1 sample".into() } else { format!("{} samples", grouped(samples)) };
            let many = channels.len() >= MOST_CHANNELS;
            let of =
                if many { format!("{MOST_CHANNELS} channels or more") } else { counted(channels.len(), "channel") };
            let one = channels.first().filter(|_| channels.len() == 1).cloned();
            drafts.push(Draft {
                time_ns,
                severity: Severity::Minor,
                station: station.clone(),
                channel: one.unwrap_or_default(),
                kind: "gap",
                text: format!("{samples} of {of} lost {place}"),
                remedy: Some(remedy.to_owned()),
            });
        }
        drafts.sort_by(|a, b| (a.time_ns, &a.station, &a.text).cmp(&(b.time_ns, &b.station, &b.text)));
        drafts
    }
}

/// From one event of a station and cause to the next.
const EVENTS_APART: Duration = Duration::from_secs(10);

/// Stations and causes.
const MOST: usize = 4096;

/// Channels that are told apart.
const MOST_CHANNELS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_gap_is_told_at_once_and_the_rest_together() {
        let mut losses = Losses::default();
        let at = Duration::from_secs;
        losses.add("s", "a", Cause::Network, 1, 7);
        losses.add("s", "a", Cause::Unselected, 9, 7);
        let first = losses.tell(at(1));
        assert_eq!(first[0].text, "1 sample of 1 channel lost between the machines");
        assert_eq!((first.len(), first[0].channel.as_str(), first[0].time_ns), (1, "a", 7));
        for time in 10..1010 {
            losses.add("s", if time % 2 == 0 { "a" } else { "b" }, Cause::Network, 3, time);
        }
        assert_eq!(losses.tell(at(10)), []);
        let rest = losses.tell(at(11));
        assert_eq!(rest[0].text, "3,000 samples of 2 channels lost between the machines");
        assert_eq!((rest[0].channel.as_str(), rest[0].time_ns), ("", 10));
        assert_eq!(losses.tell(at(100)), []);
    }

    #[test]
    fn strangers_do_not_fill_the_memory() {
        let mut losses = Losses::default();
        (0..10_000).for_each(|n| losses.add(&n.to_string(), "a", Cause::Network, 1, 0));
        assert_eq!(losses.0.len(), MOST);
    }
}
