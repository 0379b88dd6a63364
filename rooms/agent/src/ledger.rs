//! The account of the agent: what it saw, what it told of it, and what became of each datagram.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_kernel::trace::packets::{Means, Sampled};

/// Everything that was counted since the start. Each account closes: chosen = sent + shed + lost + waiting + unexplained,
/// dropped packets = sent + counted alone + waiting + unexplained, a collector's datagrams = sent + dropped + unexplained.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ledger {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Whether nothing is unexplained.
    pub closed: bool,
    /// What is unexplained, of all accounts together.
    pub unexplained: i64,
    /// The address by which collectors know the agent; null: none of them can be reached yet.
    pub agent: Option<String>,
    /// Interfaces that are counted.
    pub interfaces: usize,
    /// Of those, interfaces that are sampled.
    pub sampled_interfaces: usize,
    /// Datagrams made.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Counter samples in them.
    pub counter_samples: u64,
    /// Packets that pass; null: not sampled.
    pub sampling: Option<SamplingCount>,
    /// Packets that are dropped; null: not traced.
    pub drops: Option<DropsCount>,
    /// Who is told.
    pub collectors: Vec<CollectorCount>,
}

/// What became of flow samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SamplingCount {
    /// By what: `ebpf`, or `classic` where eBPF is not permitted, whose `shed` and `lost` are estimates.
    pub means: &'static str,
    /// Packets that could have been sampled. A super-packet (GRO, GSO) is as many as its segments.
    pub pool: u64,
    /// Samples due at the configured rates.
    pub chosen: u64,
    /// In datagrams.
    pub sent: u64,
    /// Left out in a flood.
    pub shed: u64,
    /// Lost, for the ring was full or their interface gone.
    pub lost: u64,
    /// In the ring; none at the end.
    pub waiting: u64,
    /// `chosen` less its parts.
    pub unexplained: i64,
}

/// What became of packets that were dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DropsCount {
    /// Packets dropped. A super-packet is as many as its segments.
    pub packets: u64,
    /// Samples in datagrams.
    pub sent: u64,
    /// Of which no sample tells, beyond the limit: in `drops` of the next sample.
    pub counted_alone: u64,
    /// In the ring; none at the end.
    pub waiting: u64,
    /// `packets` less its parts.
    pub unexplained: i64,
    /// By Linux's reason; those beyond 1,024 reasons are missing here.
    pub by_reason: BTreeMap<String, ReasonCount>,
}

/// Packets dropped for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReasonCount {
    /// Packets.
    pub packets: u64,
    /// Samples that tell of one.
    pub sent: u64,
}

/// What became of the datagrams for a collector.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CollectorCount {
    /// As it was named.
    pub name: String,
    /// What the name means now; null: nothing.
    pub address: Option<String>,
    /// Datagrams for it.
    pub datagrams: u64,
    /// Given to the network.
    pub sent: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Not sent, or refused by the collector's machine, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// `datagrams` less its parts.
    pub unexplained: i64,
}

impl SamplingCount {
    pub(crate) fn new(means: Means, counts: Sampled, sent: u64, ended: bool) -> Self {
        let means = match means {
            Means::Program => "ebpf",
            Means::Classic => "classic",
        };
        let Sampled { pool, chosen, shed, lost } = counts;
        let (waiting, unexplained) = rest(chosen.wrapping_sub(sent + shed + lost) as i64, ended);
        Self { means, pool, chosen, sent, shed, lost, waiting, unexplained }
    }
}

impl DropsCount {
    /// `told`: packets of which the ring had an event.
    pub(crate) fn new(by_reason: BTreeMap<String, ReasonCount>, told: u64, missed: u64, ended: bool) -> Self {
        let packets = by_reason.values().map(|reason| reason.packets).sum::<u64>() + missed;
        let sent = by_reason.values().map(|reason| reason.sent).sum::<u64>();
        let (waiting, unexplained) = rest(told.wrapping_sub(sent) as i64, ended);
        Self { packets, sent, counted_alone: packets - told, waiting, unexplained, by_reason }
    }
}

/// While it goes on, what is over waits; at the end nothing does.
fn rest(over: i64, ended: bool) -> (u64, i64) {
    if ended { (0, over) } else { (u64::try_from(over).unwrap_or(0), over.min(0)) }
}

impl Ledger {
    /// Adds up what is unexplained.
    pub(crate) fn close(mut self) -> Self {
        for collector in &mut self.collectors {
            let parts = collector.sent + collector.dropped.values().sum::<u64>();
            collector.unexplained = collector.datagrams.wrapping_sub(parts) as i64;
        }
        let collectors = self.collectors.iter().map(|collector| collector.unexplained.abs()).sum::<i64>();
        let sampling = self.sampling.map_or(0, |sampling| sampling.unexplained.abs());
        let drops = self.drops.as_ref().map_or(0, |drops| drops.unexplained.abs());
        self.unexplained = collectors + sampling + drops;
        self.closed = self.unexplained == 0;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_over_is_shown() {
        let counts = Sampled { pool: 1000, chosen: 10, shed: 2, lost: 1 };
        let waits = SamplingCount::new(Means::Program, counts, 4, false);
        assert_eq!((waits.waiting, waits.unexplained), (3, 0));
        let ended = SamplingCount::new(Means::Program, counts, 4, true);
        assert_eq!((ended.waiting, ended.unexplained), (0, 3));
        assert_eq!(SamplingCount::new(Means::Program, counts, 9, false).unexplained, -2);

        let by_reason = BTreeMap::from([("NO_SOCKET".to_owned(), ReasonCount { packets: 50, sent: 10 })]);
        let drops = DropsCount::new(by_reason, 10, 3, true);
        assert_eq!((drops.packets, drops.counted_alone, drops.unexplained), (53, 43, 0));
        let collector =
            CollectorCount { datagrams: 5, sent: 3, dropped: BTreeMap::from([("refused", 1)]), ..Default::default() };
        let ledger =
            Ledger { sampling: Some(ended), drops: Some(drops), collectors: vec![collector], ..Ledger::default() };
        let ledger = ledger.close();
        assert_eq!((ledger.unexplained, ledger.closed, ledger.collectors[0].unexplained), (4, false, 1));
        assert!(Ledger::default().close().closed);
    }
}
