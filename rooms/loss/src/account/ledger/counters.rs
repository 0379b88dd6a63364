//! What the kernel's counters tell. They know neither ports nor sockets: of this traffic they counted no more than is missing.

use std::collections::HashMap;

use super::LedgerBuilder;
use crate::account::apportion::{Rule, apportion};
use crate::account::evidence::NamespaceEvidence;
use crate::account::tally::at_most;
use crate::places::{Place, Stage};
use crate::reading::Loss;

impl<'a> LedgerBuilder<'a> {
    /// The receiver's namespace.
    pub(super) fn home(&self) -> Option<&'a NamespaceEvidence> {
        self.evidence.namespaces.iter().find(|namespace| Some(namespace.inode) == self.home)
    }

    /// What the program read, where its socket is the only one of UDP in its namespace: `Udp.InDatagrams`.
    pub(super) fn received_alone(&self) -> Option<u64> {
        let ([receiver], namespace) = (&self.share.receivers[..], self.home()?) else { return None };
        let alone = namespace.udp_sockets == 1 && receiver.queued_at_start == 0;
        alone.then(|| both(namespace, "InDatagrams"))
    }

    /// Hands what is missing to the counters that may have counted it. With a trace these are the counters of cards and of missing
    /// fragments, for losses between departure and arrival (`is_between`: both are known). Without a trace they are all counters, and
    /// they get what they counted only if all of that is missing; else each is told as a bound.
    pub(super) fn add_counters(&mut self, is_between: bool) {
        let is_traced = self.evidence.detail.is_some();
        let claims = self.claims(is_between);
        // Of wrong checksums a socket counts those that it found when they were read (net/ipv4/udp.c, udp4_csum_init); of missing
        // fragments the trace has told some.
        let mut told: HashMap<Place, u64> =
            [Place::UdpChecksum, Place::Reassembly].map(|place| (place, self.places.at(place))).into();
        let mut beyond = |loss: &Loss| {
            let told = told.entry(loss.place).or_default();
            let both = loss.packets.min(*told);
            *told -= both;
            loss.packets - both
        };
        let bounds: Vec<u64> = claims.iter().map(|(loss, _)| beyond(loss)).collect();
        let rule = if is_traced { Rule::LargestFirst } else { Rule::AllOrNothing };
        let shares = apportion(self.missing(), &bounds, rule);
        for (((loss, inode), bound), share) in claims.into_iter().zip(bounds).zip(shares) {
            if share > 0 {
                self.places.add(loss.place, share, &loss.name, "", "", Some(inode));
                self.places.believe(loss.place, at_most(loss));
            } else if !is_traced && bound > 0 {
                let (name, place) = (&loss.name, loss.place.name());
                self.unknown.push(format!("how much of {name} (+{bound}, all ports) is of this traffic: {place}"));
            }
        }
        if !is_traced {
            self.tell_what_no_counter_has();
        }
    }

    fn tell_what_no_counter_has(&mut self) {
        let receivers = &self.share.receivers;
        let told = [
            (receivers.iter().any(|socket| socket.drops > 0), JOINED),
            (receivers.iter().any(|socket| socket.gone), UNREAD),
            (true, WITHOUT_COUNTER),
        ];
        self.unknown.extend(told.into_iter().filter(|(is_so, _)| *is_so).map(|(_, words)| words.to_owned()));
    }

    /// With a trace: what interfaces lost before the kernel had a datagram, and what was given up for missing fragments. Without a
    /// trace: losses on the way through every namespace that is followed, and after it at the port.
    fn claims(&self, is_between: bool) -> Vec<(&'a Loss, u32)> {
        let is_traced = self.evidence.detail.is_some();
        let is_claim = |(index, inode, loss): &(usize, u32, &Loss)| {
            let is_home = self.home.is_none_or(|home| home == *inode);
            match loss.place.stage() {
                _ if is_traced => is_between && (loss.of_card || loss.place == Place::Reassembly),
                Stage::Socket => is_home && loss.place == Place::UdpChecksum,
                Stage::Anywhere => false,
                Stage::Port => is_home,
                // What all namespaces share is told with each.
                _ => *index == 0 || !loss.of_machine,
            }
        };
        let of = |(index, namespace): (usize, &'a NamespaceEvidence)| {
            namespace.losses.iter().map(move |loss| (index, namespace.inode, loss))
        };
        let all = self.evidence.namespaces.iter().enumerate().flat_map(of);
        all.filter(is_claim).map(|(_, inode, loss)| (loss, inode)).collect()
    }
}

const JOINED: &str = "how many datagrams were lost at a socket that takes them joined (UDP_GRO): it counts buffers";
const UNREAD: &str = "what its socket dropped and left unread when it was closed";
const WITHOUT_COUNTER: &str = "losses that leave no counter: firewall, closed with data unread, groups not joined";

/// A counter of UDP over IPv4 and IPv6.
fn both(namespace: &NamespaceEvidence, name: &str) -> u64 {
    namespace.counter(&format!("Udp.{name}")) + namespace.counter(&format!("Udp6.{name}"))
}

/// That nothing tells what a socket's drops were.
pub(super) fn why_dropped(drops: u64, namespace: Option<&NamespaceEvidence>) -> String {
    let counted = namespace.map(classes).unwrap_or_default().into_iter();
    let counted: Vec<String> = counted.map(|(place, count)| format!("{} {count}", place.name())).collect();
    let counted = counted.join(", ");
    format!("why the socket dropped {drops}: its namespace counted, other sockets included, {counted}")
}

/// What a socket's drops may have been, and how many a namespace counted of each.
pub(super) fn classes(namespace: &NamespaceEvidence) -> Vec<(Place, u64)> {
    let full = both(namespace, "RcvbufErrors");
    let checksum = both(namespace, "InCsumErrors");
    let memory = both(namespace, "MemErrors");
    let filter = both(namespace, "InErrors").saturating_sub(full + checksum + memory);
    vec![
        (Place::UdpChecksum, checksum),
        (Place::SocketFilter, filter),
        (Place::ReceiveBuffer, full),
        (Place::UdpMemory, memory),
    ]
}

/// What a socket's drops were, as far as what its namespace counted of each, less those that are `known`, leaves no doubt.
pub(super) fn at_sockets(
    drops: u64,
    namespace: Option<&NamespaceEvidence>,
    known: &dyn Fn(Place) -> u64,
) -> Option<Vec<(Place, u64)>> {
    let counted = classes(namespace?).into_iter();
    let possible: Vec<(Place, u64)> = counted
        .map(|(place, count)| (place, count.saturating_sub(known(place))))
        .filter(|(_, count)| *count > 0)
        .collect();
    if let [(place, _)] = possible[..] {
        return Some(vec![(place, drops)]);
    }
    let sum: u64 = possible.iter().map(|(_, count)| count).sum();
    let checksum: u64 = possible.iter().filter(|(place, _)| *place == Place::UdpChecksum).map(|(_, count)| count).sum();
    // Of wrong checksums a socket counts all, or none.
    let all = sum == drops;
    (all || sum - checksum == drops && drops > 0)
        .then(|| possible.into_iter().filter(|(place, _)| all || *place != Place::UdpChecksum).collect())
}

#[cfg(test)]
mod tests {
    use weir_kernel::counters::Counter;

    use super::*;
    use crate::account::book::Ledger;
    use crate::account::evidence::{Evidence, SocketSeen};
    use crate::account::receivers::ledgers;
    use crate::account::{ReceivedSession, SentSession};

    /// Without a trace, of so many that were sent and received.
    fn close(sent: u64, received: u64, drops: u64, namespaces: Vec<NamespaceEvidence>) -> Ledger {
        let local = Some("10.0.0.2:5000".parse().unwrap());
        let sockets = vec![SocketSeen { local, drops, gone: false, ..SocketSeen::traced(5, 1) }];
        let port = 5000;
        let (sent, received) =
            (Some(SentSession { sent, failed: 0, port }), Some(ReceivedSession { received, announced: None, port }));
        ledgers(&Evidence { port, sockets, namespaces, sent, received, ..Evidence::default() }, &[]).remove(0)
    }

    fn places(ledger: &Ledger) -> Vec<(Place, u64)> {
        ledger.places.iter().map(|entry| (entry.place, entry.datagrams)).collect()
    }

    /// What is placed of 10 sent and 7 received, and what is unknown of counters.
    fn placed(counted: &[(Place, Counter, u64)]) -> (Vec<(Place, u64)>, usize) {
        let losses = counted.iter().map(|&(place, counter, packets)| {
            let name = format!("eth0 {counter}");
            Loss::new(place, counter, 0, name, packets)
        });
        let namespace =
            |inode| NamespaceEvidence { inode, losses: losses.clone().collect(), ..NamespaceEvidence::default() };
        let ledger = close(10, 7, 0, vec![namespace(1)]);
        (places(&ledger), ledger.unknown.iter().filter(|words| words.starts_with("how much of ")).count())
    }

    #[test]
    fn every_counter_that_a_place_names_is_placed_if_it_fits() {
        let at_sockets = |place: &Place| place.stage() == Stage::Socket && *place != Place::UdpChecksum;
        for place in Place::all().filter(|place| !at_sockets(place) && place.stage() != Stage::Anywhere) {
            for counter in place.counters() {
                assert_eq!(placed(&[(place, counter, 3)]), (vec![(place, 3)], 0), "{counter}");
                assert_eq!(placed(&[(place, counter, 4)]), (vec![], 1), "{counter}");
            }
        }
        let (queue, ring) = ((Place::Qdisc, Counter::Qdisc, 2), (Place::ReceiveRing, Counter::RxMissed, 1));
        assert_eq!(placed(&[queue, ring]).0, [(Place::Qdisc, 2), (Place::ReceiveRing, 1)]);
        assert_eq!(placed(&[queue, (Place::ReceiveRing, Counter::RxMissed, 2)]), (vec![], 2));
    }

    /// Ten came of twenty: seven found the buffer full, of which their socket tells, and three had a wrong checksum.
    #[test]
    fn checksums_that_no_socket_counted_are_lost_beside_what_it_counted() {
        let loss = |place, counter: Counter, packets| Loss::new(place, counter, 0, counter.to_string(), packets);
        for at_socket in [false, true] {
            let counters = [("Udp.RcvbufErrors", 7), ("Udp.InCsumErrors", 3), ("Udp.InErrors", 10)];
            let home = NamespaceEvidence {
                inode: 1,
                counters: counters.map(|(name, count)| (name.to_owned(), count)).into(),
                losses: vec![
                    loss(Place::ReceiveBuffer, Counter::Snmp("Udp", "RcvbufErrors"), 7),
                    loss(Place::UdpChecksum, Counter::Snmp("Udp", "InCsumErrors"), 3),
                ],
                ..NamespaceEvidence::default()
            };
            let ledger = close(20, 10, if at_socket { 10 } else { 7 }, vec![home]);
            assert_eq!(places(&ledger), [(Place::UdpChecksum, 3), (Place::ReceiveBuffer, 7)], "{ledger:#?}");
        }
    }

    #[test]
    fn what_all_namespaces_share_is_lost_once() {
        let loss = Loss::new(Place::Backlog, Counter::SoftnetDropped, 0, "softnet.dropped".into(), 3);
        let namespace = |inode| NamespaceEvidence { inode, losses: vec![loss.clone()], ..NamespaceEvidence::default() };
        let ledger = close(10, 7, 0, vec![namespace(1), namespace(2)]);
        assert_eq!(places(&ledger), [(Place::Backlog, 3)], "{ledger:#?}");
    }
}
