//! Interfaces that are counted: which there are, and whose turn it is.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_kernel::counters::{LinkChanges, LinkCounters, Links};
use weir_kernel::ethtool::{Ethtool, LinkMode};
use weir_kernel::links::Index;
use weir_kernel::namespaces::NetNs;
use weir_wire::sflow::DataSource;
use weir_wire::sflow::encode::Counters;

use crate::config::Pattern;
use crate::counters::{HOST, Host, write_interface};
use crate::outbox::Outbox;

/// All interfaces of the namespace, and the machine itself.
pub(crate) struct Interfaces {
    links: Links,
    changes: LinkChanges,
    ethtool: Ethtool,
    host: Host,
    turn: Turn,
    known: BTreeMap<Index, Known>,
    started: Instant,
    /// When the list is read though nothing was heard of a change.
    due: Instant,
    /// Counter samples so far.
    pub(crate) samples: u64,
    /// Why the list could not be read when it was last; `None`: it could.
    pub(crate) unlisted: Option<String>,
}

/// An interface that is counted.
struct Known {
    link: LinkCounters,
    turn: Turn,
}

/// When a data source is read, and how often it was.
#[derive(Clone, Copy, Debug)]
struct Turn {
    due: Instant,
    sequence: u32,
}

/// What the last look at the list brought.
#[derive(Debug, Default)]
pub(crate) struct News {
    /// Those that are new, or may have another speed.
    pub(crate) there: Vec<There>,
    /// Those that are gone, or not wanted any more.
    pub(crate) gone: Vec<Index>,
}

/// An interface, for whoever samples it.
#[derive(Clone, Debug)]
pub(crate) struct There {
    pub(crate) index: Index,
    pub(crate) name: String,
    pub(crate) speed_mbit: Option<u32>,
    pub(crate) ethernet: bool,
}

impl Interfaces {
    /// Of this process's network namespace; none is known before the first look.
    ///
    /// # Errors
    /// Out of descriptors.
    pub(crate) fn open() -> Result<Self> {
        let ns = NetNs::current()?;
        let now = Instant::now();
        Ok(Self {
            links: Links::open(&ns)?,
            changes: LinkChanges::open(&ns)?,
            ethtool: Ethtool::open(&ns)?,
            host: Host::new(ns),
            turn: Turn { due: now, sequence: 0 },
            known: BTreeMap::new(),
            started: now,
            due: now,
            samples: 0,
            unlisted: None,
        })
    }

    /// Reads the list where it has changed; every minute in any case.
    ///
    /// # Errors
    /// If the kernel does not give it.
    pub(crate) fn look(&mut self, now: Instant, wanted: &[Pattern]) -> Result<News> {
        if !self.changes.take() && now < self.due {
            return Ok(News::default());
        }
        self.due = now + LISTS_APART;
        let links = self.list()?;
        let mut before = std::mem::take(&mut self.known);
        let mut news = News::default();
        for link in links {
            let is_wanted = match wanted {
                [] => !link.loopback,
                patterns => patterns.iter().any(|pattern| pattern.matches(&link.name)),
            };
            if !is_wanted {
                continue;
            }
            let turn = before.remove(&link.index).map_or(Turn { due: now, sequence: 0 }, |known| known.turn);
            let speed_mbit = self.mode(&link.name).speed_mbit;
            let (index, name, ethernet) = (link.index, link.name.clone(), link.ethernet);
            news.there.push(There { index, name, speed_mbit, ethernet });
            self.known.insert(index, Known { link, turn });
        }
        news.gone.extend(before.into_keys());
        Ok(news)
    }

    /// Has the list read at the next look: other interfaces are wanted.
    pub(crate) fn look_again(&mut self) {
        self.due = self.started;
    }

    /// Writes a counter sample of each data source whose turn it is, as it is now.
    ///
    /// # Errors
    /// If the kernel does not tell of one; all others are written.
    pub(crate) fn poll(&mut self, now: Instant, interval: Duration, outbox: &mut Outbox) -> Result<()> {
        let due: Vec<Index> =
            self.known.iter().filter(|(_, known)| known.turn.due <= now).map(|(&index, _)| index).collect();
        let mut outcome = Ok(());
        for index in due {
            let link = match self.links.find(index) {
                Ok(Some(link)) => link,
                // It has gone, and is about to be told so.
                Ok(None) => continue,
                Err(error) => {
                    outcome = Err(error.into());
                    continue;
                }
            };
            let mode = self.mode(&link.name);
            let Some(known) = self.known.get_mut(&index) else { continue };
            known.link = link;
            let sequence = known.turn.take(now, self.started, interval, index);
            let sample =
                Counters { sequence, source: DataSource { class: DataSource::IF_INDEX, index }, expanded: false };
            outbox.add(true, |samples| write_interface(&mut samples.counters(&sample), &known.link, mode));
            self.samples += 1;
        }
        if self.turn.due <= now {
            let links = self.list();
            let sequence = self.turn.take(now, self.started, interval, 0);
            let sample = Counters { sequence, source: HOST, expanded: false };
            outbox.add(true, |samples| self.host.write(&mut samples.counters(&sample), links.as_deref().ok()));
            self.samples += 1;
            outcome = outcome.and(links.map(drop));
        }
        outcome
    }

    fn list(&mut self) -> Result<Vec<LinkCounters>> {
        let links = self.links.read();
        self.unlisted = links.as_ref().err().map(ToString::to_string);
        Ok(links?)
    }

    /// How many are counted.
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    fn mode(&self, name: &str) -> LinkMode {
        self.ethtool.mode(name).ok().flatten().unwrap_or_default()
    }
}

impl Turn {
    /// Takes it; the number of the sample. The next one comes at a time of the interval that the number of the data source
    /// decides, so that many are spread evenly, half an interval to one and a half from now, and then one.
    fn take(&mut self, now: Instant, started: Instant, interval: Duration, index: Index) -> u32 {
        self.due = next(now.duration_since(started), interval, index).map_or(now + interval, |due| started + due);
        self.sequence = self.sequence.wrapping_add(1);
        self.sequence
    }
}

/// When a data source is due next, since the start.
fn next(now: Duration, interval: Duration, index: Index) -> Option<Duration> {
    // Multiples of the golden ratio are spread as evenly as any.
    let phase = interval.mul_f64((f64::from(index) * GOLDEN_RATIO).fract());
    let earliest = (now + interval / 2).saturating_sub(phase);
    let rounds = earliest.as_nanos().div_ceil(interval.as_nanos().max(1));
    interval.checked_mul(u32::try_from(rounds).ok()?)?.checked_add(phase)
}

const GOLDEN_RATIO: f64 = 0.618_033_988_749_895;

/// From one reading of the list to the next though nothing was heard of a change.
const LISTS_APART: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn turns_are_an_interval_apart(index in 0_u32..5000, start in 0_u64..100_000, millis in 1000_u64..100_000) {
            let interval = Duration::from_millis(millis);
            let now = Duration::from_millis(start);
            let first = next(now, interval, index).unwrap();
            prop_assert!(first >= now + interval / 2 && first <= now + interval * 3 / 2 + Duration::from_millis(1));
            let second = next(first, interval, index).unwrap();
            let error = (second - first).abs_diff(interval);
            prop_assert!(error < Duration::from_micros(1), "{:?}", error);
        }
    }

    #[test]
    fn many_are_spread_over_the_interval() {
        let interval = Duration::from_secs(20);
        let mut tenths = [0; 10];
        for index in 1..=1000 {
            let due = next(Duration::ZERO, interval, index).unwrap().as_millis() % interval.as_millis();
            tenths[(due / 2000) as usize] += 1;
        }
        assert!(tenths.iter().all(|count| (90..=110).contains(count)), "{tenths:?}");
    }
}
