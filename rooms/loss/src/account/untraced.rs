//! What counters alone can tell, where nothing is traced.

use super::apportion::{Rule, apportion};
use super::evidence::{Evidence, NamespaceEvidence, SocketSeen};
use super::tally::{Tally, at_most};
use crate::places::{Place, Stage};
use crate::reading::Loss;

/// What the program read, where its socket is the only one of UDP in its namespace: `Udp.InDatagrams`.
pub(super) fn received(evidence: &Evidence, receivers: &[&SocketSeen]) -> Option<u64> {
    let [receiver] = receivers else { return None };
    let namespace = home(evidence, receivers)?;
    let alone = namespace.udp_sockets == 1 && receiver.queued_at_start == 0;
    alone.then(|| both(namespace, "InDatagrams"))
}

fn home<'a>(evidence: &'a Evidence, receivers: &[&SocketSeen]) -> Option<&'a NamespaceEvidence> {
    let inode = receivers.first()?.namespace;
    evidence.namespaces.iter().find(|ns| ns.inode == inode)
}

/// A counter of UDP over IPv4 and IPv6.
fn both(namespace: &NamespaceEvidence, name: &str) -> u64 {
    namespace.counter(&format!("Udp.{name}")) + namespace.counter(&format!("Udp6.{name}"))
}

/// Adds the losses that counters tell. A socket's own counter is exact. One of a namespace counts every port: it is
/// taken where it explains what is missing and no more, else told as a bound.
pub(super) fn places(
    evidence: &Evidence,
    receivers: &[&SocketSeen],
    sent: Option<u64>,
    received: Option<u64>,
    places: &mut Tally,
    unknown: &mut Vec<String>,
) {
    let drops: u64 = receivers.iter().map(|socket| socket.drops).sum();
    let namespace = home(evidence, receivers);
    if drops > 0 {
        by_socket(drops, namespace, places, unknown);
        unknown.push(
            "how many datagrams were lost at a socket that takes them joined (UDP_GRO): it counts buffers".to_owned(),
        );
    }
    if receivers.iter().any(|socket| socket.gone) {
        unknown.push("what its socket dropped and left unread when it was closed".to_owned());
    }
    // Small datagrams with a wrong checksum are dropped before their socket is looked for, which counts those alone that
    // it found when they were read (net/ipv4/udp.c, udp4_csum_init).
    let mut at_socket = places.at(Place::UdpChecksum);
    let beyond = |(loss, inode): (&Loss, u32)| {
        let counted = if loss.place == Place::UdpChecksum { at_socket.min(loss.packets) } else { 0 };
        at_socket -= counted;
        let loss = Loss { packets: loss.packets - counted, ..loss.clone() };
        (loss.packets > 0).then_some((loss, inode))
    };
    let claims: Vec<(Loss, u32)> = claims(evidence, namespace).into_iter().filter_map(beyond).collect();
    let bounds: Vec<u64> = claims.iter().map(|(loss, _)| loss.packets).collect();
    let missing = sent.zip(received).map_or(0, |(sent, received)| sent.saturating_sub(received + places.total()));
    for ((loss, inode), share) in claims.iter().zip(apportion(missing, &bounds, Rule::AllOrNothing)) {
        let Loss { place, name, packets, .. } = loss;
        if share > 0 {
            places.add(*place, share, name, "", "", Some(*inode));
            places.believe(*place, at_most(loss));
        } else {
            let place = place.name();
            unknown.push(format!("how much of {name} (+{packets}, all ports) is of this traffic: {place}"));
        }
    }
    unknown.push("losses that leave no counter: firewall, closed with data unread, groups not joined".to_owned());
}

/// Losses that may be of this traffic: on its way through every namespace that is followed, and behind it at its port.
fn claims<'a>(evidence: &'a Evidence, home: Option<&NamespaceEvidence>) -> Vec<(&'a Loss, u32)> {
    let of = |(index, namespace): (usize, &'a NamespaceEvidence)| {
        let is_home = home.is_none_or(|home| home.inode == namespace.inode);
        let is_claim = move |loss: &&Loss| match loss.place.stage() {
            Stage::Socket => is_home && loss.place == Place::UdpChecksum,
            Stage::Anywhere => false,
            Stage::Port => is_home,
            // What all namespaces share is told with each.
            _ => index == 0 || !loss.of_machine,
        };
        namespace.losses.iter().filter(is_claim).map(|loss| (loss, namespace.inode))
    };
    evidence.namespaces.iter().enumerate().flat_map(of).collect()
}

/// The kernel keeps one count a socket: by what the namespace counted it is known what it means.
fn by_socket(drops: u64, namespace: Option<&NamespaceEvidence>, places: &mut Tally, unknown: &mut Vec<String>) {
    let Some(namespace) = namespace else {
        places.add(Place::Other, drops, "socket drops", "", "", None);
        return;
    };
    let told = at_sockets(drops, Some(namespace), &|_| 0);
    if told.is_none() {
        unknown.push(why_dropped(drops, Some(namespace)));
    }
    for (place, count) in told.unwrap_or_else(|| vec![(Place::Other, drops)]) {
        places.add(place, count, "socket drops", "", "", Some(namespace.inode));
        let counted = classes(namespace).into_iter().find(|(class, _)| *class == place).map_or(0, |(_, count)| count);
        if place != Place::Other && counted != count {
            places.believe(place, OWN_SOCKET.to_owned());
        }
    }
}

pub(super) const OWN_SOCKET: &str = "the socket's own counter: others miss drops, or count other sockets, too";

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
    use crate::account::evidence::SocketSeen;

    /// What is placed of 10 sent and 7 received, and what is unknown of counters.
    fn placed(counted: &[(Place, Counter, u64)]) -> (Vec<(Place, u64)>, usize) {
        let losses = counted.iter().map(|&(place, counter, packets)| {
            let name = format!("eth0 {counter}");
            Loss::new(place, counter, 0, name, packets)
        });
        let namespace =
            |inode| NamespaceEvidence { inode, losses: losses.clone().collect(), ..NamespaceEvidence::default() };
        let evidence = Evidence { namespaces: vec![namespace(1)], ..Evidence::default() };
        let (mut tally, mut unknown) = (Tally::default(), Vec::new());
        places(&evidence, &[], Some(10), Some(7), &mut tally, &mut unknown);
        let entries = tally.into_entries(&[]).into_iter().map(|entry| (entry.place, entry.datagrams)).collect();
        (entries, unknown.len() - 1)
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
            let evidence = Evidence { namespaces: vec![home], ..Evidence::default() };
            let socket = SocketSeen { drops: if at_socket { 10 } else { 7 }, ..SocketSeen::traced(5, 1) };
            let (mut tally, mut unknown) = (Tally::default(), Vec::new());
            places(&evidence, &[&socket], Some(20), Some(10), &mut tally, &mut unknown);
            assert_eq!((tally.at(Place::ReceiveBuffer), tally.at(Place::UdpChecksum)), (7, 3), "{at_socket}");
            assert_eq!(tally.total(), 10, "{unknown:?}");
        }
    }

    #[test]
    fn what_all_namespaces_share_is_lost_once() {
        let loss = Loss::new(Place::Backlog, Counter::SoftnetDropped, 0, "softnet.dropped".into(), 3);
        let namespace = |inode| NamespaceEvidence { inode, losses: vec![loss.clone()], ..NamespaceEvidence::default() };
        let evidence = Evidence { namespaces: vec![namespace(1), namespace(2)], ..Evidence::default() };
        assert_eq!(claims(&evidence, None).len(), 1);
    }
}
