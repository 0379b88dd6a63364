//! How fast the counts of two ledgers grow.

use weir_forward::ledger::{Count, DestinationCount, Ledger, ListenerCount, RuleCount};

/// From one ledger to a later one.
pub(super) struct Rates<'a> {
    before: &'a Ledger,
    now: &'a Ledger,
    /// Seconds from one to the other; 0 on the first picture.
    span: f64,
}

/// Datagrams and payload bits a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rate {
    pub(super) datagrams: f64,
    pub(super) bits: f64,
}

impl<'a> Rates<'a> {
    pub(super) fn new(before: &'a Ledger, now: &'a Ledger) -> Self {
        Self { before, now, span: (now.elapsed_s - before.elapsed_s).max(0.0) }
    }

    /// A number of a listener; one that was not there before began at 0.
    pub(super) fn of_listener(&self, now: &ListenerCount, read: impl Fn(&ListenerCount) -> u64) -> f64 {
        let same = |before: &&ListenerCount| before.name == now.name && before.address == now.address;
        self.a_second(self.before.listeners.iter().find(same).map(&read), read(now))
    }

    pub(super) fn of_rule(&self, now: &RuleCount, read: impl Fn(&RuleCount) -> u64) -> f64 {
        self.a_second(self.before.rules.iter().find(|before| before.name == now.name).map(&read), read(now))
    }

    pub(super) fn of_destination(&self, now: &DestinationCount, read: impl Fn(&DestinationCount) -> u64) -> f64 {
        let same = |before: &&DestinationCount| before.name == now.name && before.address == now.address;
        self.a_second(self.before.destinations.iter().find(same).map(&read), read(now))
    }

    /// What came in, over all listeners.
    pub(super) fn received(&self) -> Rate {
        let rate = |read: fn(&ListenerCount) -> u64| {
            self.now.listeners.iter().map(|listener| self.of_listener(listener, read)).sum::<f64>()
        };
        Rate { datagrams: rate(|count| count.received.datagrams), bits: rate(|count| bits(count.received)) }
    }

    /// What went out, over all destinations.
    pub(super) fn sent(&self) -> Rate {
        Rate {
            datagrams: self.of_destinations(|count| count.sent.datagrams),
            bits: self.of_destinations(|count| bits(count.sent)),
        }
    }

    /// Copies dropped, over all destinations.
    pub(super) fn dropped(&self) -> f64 {
        self.of_destinations(|count| count.drops.total())
    }

    /// Datagrams that the kernel dropped, over all listeners.
    pub(super) fn kernel_drops(&self) -> f64 {
        let read = |count: &ListenerCount| count.kernel_drops.unwrap_or(0);
        self.now.listeners.iter().map(|listener| self.of_listener(listener, read)).sum()
    }

    /// The reasons for which a destination loses, the worst first.
    pub(super) fn reasons(&self, now: &DestinationCount) -> Vec<(&'static str, f64)> {
        let mut reasons: Vec<(&str, f64)> = now
            .drops
            .by_reason()
            .into_iter()
            .enumerate()
            .map(|(index, (reason, _))| (reason, self.of_destination(now, |count| count.drops.by_reason()[index].1)))
            .filter(|(_, rate)| *rate > 0.0)
            .collect();
        reasons.sort_by(|one, other| other.1.total_cmp(&one.1));
        reasons
    }

    fn of_destinations(&self, read: impl Fn(&DestinationCount) -> u64) -> f64 {
        self.now.destinations.iter().map(|destination| self.of_destination(destination, &read)).sum()
    }

    fn a_second(&self, before: Option<u64>, now: u64) -> f64 {
        let more = now.saturating_sub(before.unwrap_or(0));
        if self.span > 0.0 { more as f64 / self.span } else { 0.0 }
    }
}

pub(super) fn bits(count: Count) -> u64 {
    count.bytes.saturating_mul(8)
}
