//! The counters of the kernel, read in one place, and the losses that they tell.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};
use weir_kernel::Error;
use weir_kernel::counters::{self, Conntrack, Counter, LinkCounters, Links, Protocols, Qdisc, Qdiscs, Snmp, Tracking};
use weir_kernel::links::Index;
use weir_kernel::namespaces::NetNs;

use crate::places::Place;

/// Which counter a value is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    /// What it counts.
    pub counter: Counter,
    /// The interface it is of; 0: of none.
    pub interface: Index,
    /// As it is told: `Udp.NoPorts`, `eth0 rx_missed`, `eth0 fq_codel`.
    pub name: String,
    /// Of several of that name: the processor, the queue, the discipline's handle.
    pub part: u32,
}

/// What is open to read the counters of a namespace again and again: nobody needs to enter it for a reading.
pub(crate) struct Reader {
    protocols: Protocols,
    links: Links,
    /// `None`: the kernel has none.
    qdiscs: Option<Qdiscs>,
    /// `None`: its module was not loaded at the last reading.
    tracking: Option<Tracking>,
}

/// The counters of a namespace at one moment.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    /// Those that tell of losses; what the kernel or a driver does not have is not here.
    pub values: Vec<(Id, u64)>,
    /// All of the protocols.
    pub snmp: Snmp,
    /// Interfaces.
    pub links: Vec<LinkCounters>,
    /// Packets that wait in the queues of interfaces.
    pub queued: u64,
    /// What was read.
    pub sources: Vec<&'static str>,
    /// What should be there and could not be read.
    pub failed: Vec<Error>,
}

impl Reader {
    /// Opens what is read of `ns`.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or out of file descriptors.
    pub(crate) fn open(ns: &NetNs) -> Result<Reader, Error> {
        Ok(Reader {
            protocols: Protocols::open(ns)?,
            links: Links::open(ns)?,
            qdiscs: Qdiscs::open(ns).ok(),
            tracking: Tracking::open(ns)?,
        })
    }

    /// Reads the counters of the namespace it was opened for.
    pub(crate) fn read(&mut self, ns: &NetNs) -> Reading {
        let mut reading = Reading::default();
        match self.protocols.read() {
            Ok(snmp) => reading.add_protocols(snmp),
            Err(error) => reading.failed.push(error),
        }
        match self.links.read() {
            Ok(links) => reading.add_links(links),
            Err(error) => reading.failed.push(error),
        }
        if let Some(qdiscs) = &mut self.qdiscs {
            reading.add_qdiscs(&qdiscs.read().unwrap_or_default());
        }
        if let Some(tracking) = self.tracking(ns) {
            reading.sources.push("conntrack");
            tracking.losses().into_iter().for_each(|(counter, value)| reading.add(counter, 0, value));
        }
        // Only cards tell of their queues.
        if reading.links.iter().any(|link| link.kind.is_none() && !link.loopback) {
            reading.add_queues(ns);
        }
        reading
    }

    /// Its module may be loaded, or loaded anew, at any time.
    fn tracking(&mut self, ns: &NetNs) -> Option<Conntrack> {
        let read = self.tracking.as_ref().and_then(Tracking::read);
        read.or_else(|| {
            self.tracking = Tracking::open(ns).ok().flatten();
            self.tracking.as_ref().and_then(Tracking::read)
        })
    }
}

impl Reading {
    fn add(&mut self, counter: Counter, interface: Index, value: u64) {
        self.add_part(counter, interface, counter.to_string(), 0, value);
    }

    fn add_part(&mut self, counter: Counter, interface: Index, name: String, part: u32, value: u64) {
        self.values.push((Id { counter, interface, name, part }, value));
    }

    fn add_protocols(&mut self, snmp: Snmp) {
        self.sources.push("snmp");
        for counter in Place::all().flat_map(Place::counters) {
            if let Counter::Snmp(table, name) = counter
                && let Some(value) = snmp.get(table, name)
            {
                self.add(counter, 0, value.cast_unsigned());
            }
        }
        self.snmp = snmp;
    }

    fn add_links(&mut self, links: Vec<LinkCounters>) {
        self.sources.push("links");
        for link in &links {
            for (counter, value) in link.losses() {
                self.add_part(counter, link.index, format!("{} {counter}", link.name), 0, value);
            }
        }
        self.links = links;
    }

    fn add_qdiscs(&mut self, qdiscs: &[Qdisc]) {
        self.sources.push("qdisc");
        // Those of the disciplines below are in their parents' counts.
        for qdisc in qdiscs.iter().filter(|qdisc| qdisc.parent == Qdisc::ROOT) {
            self.queued += u64::from(qdisc.backlog_packets);
            let name = format!("{} {}", self.name_of(qdisc.interface), qdisc.kind);
            self.add_part(Counter::Qdisc, qdisc.interface, name, qdisc.handle, qdisc.drops.into());
        }
    }

    fn add_queues(&mut self, ns: &NetNs) {
        let Ok(Some(queues)) = counters::queues(ns) else { return };
        self.sources.push("netdev-genl");
        for queue in queues.iter().filter(|queue| queue.receives) {
            let interface = self.name_of(queue.interface);
            for (counter, value) in queue.losses() {
                if let Some(value) = value {
                    let name = format!("{interface} {counter}");
                    self.add_part(counter, queue.interface, name, queue.queue, value);
                }
            }
        }
    }

    fn name_of(&self, interface: Index) -> String {
        let link = self.links.iter().find(|link| link.index == interface);
        link.map_or_else(|| format!("interface {interface}"), |link| link.name.clone())
    }
}

/// The counters that all namespaces share.
///
/// # Errors
/// If /proc cannot be read.
pub(crate) fn of_machine() -> Result<Vec<(Id, u64)>, Error> {
    let id = |counter: Counter, part| Id { counter, interface: 0, name: counter.to_string(), part };
    let of_processors = counters::softnet()?
        .into_iter()
        .flat_map(|softnet| softnet.losses().map(|(counter, value)| (id(counter, softnet.cpu), value)));
    let discards = counters::neighbour_discards().into_iter().map(|(counter, value)| (id(counter, 0), value));
    Ok(of_processors.chain(discards).collect())
}

/// What counters counted over some time, those of one name together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Totals(BTreeMap<(Counter, Index, String), u64>);

impl FromIterator<(Id, u64)> for Totals {
    fn from_iter<T: IntoIterator<Item = (Id, u64)>>(counted: T) -> Self {
        let mut totals = Self::default();
        for (Id { counter, interface, name, .. }, value) in counted {
            *totals.0.entry((counter, interface, name)).or_default() += value;
        }
        totals
    }
}

/// A loss as one counter tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Where.
    pub place: Place,
    /// Whether a card counted it, where the kernel had no buffer that could be traced.
    pub of_card: bool,
    /// Whether all namespaces share the counter.
    pub of_machine: bool,
    /// Its interface; 0: none.
    pub interface: Index,
    /// As the counter is told.
    pub name: String,
    /// How many packets, less what counters before it tell that may count the same ones.
    pub packets: u64,
}

impl Loss {
    pub(crate) fn new(place: Place, counter: Counter, interface: Index, name: String, packets: u64) -> Loss {
        let (of_card, of_machine) = (counter.is_of_card(), counter.is_of_machine());
        Loss { place, of_card, of_machine, interface, name, packets }
    }
}

impl Totals {
    /// By name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|((_, _, name), total)| (name.as_str(), *total))
    }

    /// A counter of an interface.
    pub(crate) fn of(&self, counter: Counter, interface: Index) -> u64 {
        let own = self.0.iter().filter(|((known, of, _), _)| (*known, *of) == (counter, interface));
        own.map(|(_, total)| total).sum()
    }

    /// The losses that they tell, those of 0 included, each once: of counters that may count the same losses the largest
    /// is believed, so that each has what it counted beyond those before it.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let mut by_counter: HashMap<Counter, Vec<(Index, &str, u64)>> = HashMap::new();
        for ((counter, interface, name), total) in &self.0 {
            by_counter.entry(*counter).or_default().push((*interface, name, *total));
        }
        let mut losses = Vec::new();
        for place in Place::all() {
            for group in place.row().counters {
                let mut told: HashMap<Index, u64> = HashMap::new();
                for counter in *group {
                    let mut own: HashMap<Index, u64> = HashMap::new();
                    for (interface, name, total) in by_counter.get(counter).into_iter().flatten() {
                        let (own, told) = (own.entry(*interface).or_default(), told.entry(*interface).or_default());
                        *own += total;
                        let packets = own.saturating_sub(*told);
                        *told += packets;
                        losses.push(Loss::new(place, *counter, *interface, (*name).to_owned(), packets));
                    }
                }
            }
        }
        losses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(counted: [(Counter, u64); 4]) -> Vec<(String, u64)> {
        let id = |counter: Counter| Id { counter, interface: 2, name: format!("eth0 {counter}"), part: 0 };
        let totals: Totals = counted.into_iter().map(|(counter, value)| (id(counter), value)).collect();
        let losses = totals.losses().into_iter().filter(|loss| loss.packets > 0);
        losses.map(|loss| (format!("{} {}", loss.place.name(), loss.name), loss.packets)).collect()
    }

    #[test]
    fn what_a_driver_counts_twice_is_lost_once() {
        use Counter::{QueueOverruns, RxFifo, RxMissed, RxOver};
        let of = |missed, fifo, over, overruns| {
            let told = ring([(RxMissed, missed), (RxFifo, fifo), (RxOver, over), (QueueOverruns, overruns)]);
            (told.iter().map(|(_, packets)| packets).sum::<u64>(), told.len())
        };
        assert_eq!(of(7, 7, 7, 7), (7, 1));
        assert_eq!(of(0, 7, 0, 0), (7, 1));
        assert_eq!(of(0, 0, 7, 0), (7, 1));
        assert_eq!(of(5, 7, 0, 9), (9, 3));
        assert_eq!(of(0, 0, 0, 0), (0, 0));
    }

    #[test]
    fn each_kind_of_damage_is_a_loss_of_its_own() {
        use Counter::{RxCrc, RxDropped, RxFrame, RxLength};
        let told = ring([(RxCrc, 1), (RxFrame, 2), (RxLength, 4), (RxDropped, 100)]);
        assert_eq!(told.iter().map(|(_, packets)| packets).sum::<u64>(), 7);
        assert!(told.iter().all(|(name, _)| name.starts_with("frame ")), "{told:?}");
    }

    #[test]
    fn interfaces_parts_and_disciplines_add_up() {
        let id = |interface, name: &str, part| Id { counter: Counter::Qdisc, interface, name: name.into(), part };
        let counted = [(id(2, "a tbf", 1), 3), (id(2, "a tbf", 2), 4), (id(2, "a fq", 1), 5), (id(3, "b fq", 1), 6)];
        let losses = counted.into_iter().collect::<Totals>().losses();
        let told: Vec<_> = losses.iter().map(|loss| (loss.name.as_str(), loss.packets)).collect();
        assert_eq!(told, [("a fq", 5), ("a tbf", 7), ("b fq", 6)]);
    }

    #[test]
    fn what_a_veth_did_not_take_its_peers_backlog_counts() {
        assert_eq!(
            ring([(Counter::TxDroppedVeth, 3), (Counter::RxCrc, 0), (Counter::RxFrame, 0), (Counter::TxFifo, 1)]),
            [("transmit eth0 tx_fifo".to_owned(), 1)]
        );
    }

    #[test]
    fn every_counter_that_a_place_names_is_read() {
        let ns = NetNs::create().unwrap();
        let reading = Reader::open(&ns).unwrap().read(&ns);
        assert!(reading.failed.is_empty(), "{:?}", reading.failed);
        let machine = of_machine().unwrap();
        let read = |wanted: Counter| reading.values.iter().chain(&machine).any(|(id, _)| id.counter == wanted);
        // What only a card, a module or a machine's first namespace has.
        use Counter::{ArpDiscards, ConntrackDrop, ConntrackInsertFailed, NdiscDiscards, Qdisc, QueueOverruns};
        let may_lack = [ArpDiscards, NdiscDiscards, ConntrackDrop, ConntrackInsertFailed, Qdisc, QueueOverruns];
        for counter in Place::all().flat_map(Place::counters) {
            let without_ipv6 = matches!(counter, Counter::Snmp(table, _) if table.ends_with('6'));
            assert!(read(counter) || without_ipv6 || may_lack.contains(&counter), "{counter}");
        }
    }
}
