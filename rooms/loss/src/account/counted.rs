//! What counters alone can tell, where nothing is traced.

use super::evidence::{Evidence, NamespaceEvidence};
use super::ledger::Subject;
use super::tally::Tally;
use crate::places::Place;

/// What the program read, where its socket is the only one of UDP in its namespace: `Udp.InDatagrams`.
pub(super) fn received(evidence: &Evidence, subject: &Subject<'_>) -> Option<u64> {
    let [receiver] = subject.receivers else { return None };
    let namespace = home(evidence, subject)?;
    let alone = namespace.udp_sockets == 1 && receiver.queued_at_start == 0;
    alone.then(|| both(namespace, "InDatagrams"))
}

fn home<'a>(evidence: &'a Evidence, subject: &Subject<'_>) -> Option<&'a NamespaceEvidence> {
    let inode = subject.receivers.first()?.namespace;
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
    subject: &Subject<'_>,
    sent: Option<u64>,
    received: Option<u64>,
    places: &mut Tally,
    unknown: &mut Vec<String>,
) {
    let drops: u64 = subject.receivers.iter().map(|socket| socket.drops).sum();
    let namespace = home(evidence, subject);
    if drops > 0 {
        by_socket(drops, namespace, places, unknown);
        unknown.push(
            "how many datagrams were lost at a socket that takes them joined (UDP_GRO): it counts buffers".to_owned(),
        );
    }
    if subject.receivers.iter().any(|socket| socket.gone) {
        unknown.push("what its socket dropped and left unread when it was closed".to_owned());
    }
    let namespaces: Vec<&NamespaceEvidence> = match namespace {
        Some(namespace) => vec![namespace],
        None => evidence.namespaces.iter().collect(),
    };
    let mut found = Vec::new();
    for namespace in namespaces {
        for place in Place::all().filter(|place| *place < Place::UdpChecksum) {
            for (table, name) in place.facts().counters {
                let counter = format!("{table}.{name}");
                let count = namespace.counter(&counter);
                if count > 0 {
                    found.push((place, counter, count, namespace.inode));
                }
            }
        }
        for hardware in &namespace.hardware {
            found.push((hardware.place, hardware.counter.clone(), hardware.count, namespace.inode));
        }
    }
    let sum: u64 = found.iter().map(|(_, _, count, _)| count).sum();
    let missing = sent.zip(received).map(|(sent, received)| sent.saturating_sub(received + places.total()));
    for (place, counter, count, inode) in found {
        if missing.is_some_and(|missing| sum <= missing) {
            places.add(place, count, &counter, "", "", Some(inode));
            places.believe(place, format!("{counter} counts every port of the namespace; it fits what is missing"));
        } else {
            unknown.push(format!("how much of {counter} (+{count}, all ports) is of this traffic: {}", place.name()));
        }
    }
    unknown.push("losses that leave no counter: firewall, closed with data unread, groups not joined".to_owned());
}

/// The kernel keeps one count a socket: by what the namespace counted it is known what it means.
fn by_socket(drops: u64, namespace: Option<&NamespaceEvidence>, places: &mut Tally, unknown: &mut Vec<String>) {
    let Some(namespace) = namespace else {
        places.add(Place::Other, drops, "socket drops", "", "", None);
        return;
    };
    let full = both(namespace, "RcvbufErrors");
    let checksum = both(namespace, "InCsumErrors");
    let memory = both(namespace, "MemErrors");
    let filter = both(namespace, "InErrors").saturating_sub(full + checksum + memory);
    let classes = [
        (Place::UdpChecksum, checksum),
        (Place::SocketFilter, filter),
        (Place::ReceiveBuffer, full),
        (Place::UdpMemory, memory),
    ];
    let sum: u64 = classes.iter().map(|(_, count)| count).sum();
    let possible: Vec<_> = classes.iter().filter(|(_, count)| *count > 0).collect();
    match possible[..] {
        [(place, count)] => {
            places.add(*place, drops, "socket drops", "", "", Some(namespace.inode));
            if *count != drops {
                places.believe(*place, "the socket's own counter: that of the namespace counts other sockets, too");
            }
        }
        _ if sum == drops => {
            for (place, count) in classes {
                places.add(place, count, "socket drops", "", "", Some(namespace.inode));
            }
        }
        _ => {
            places.add(Place::Other, drops, "socket drops", "", "", Some(namespace.inode));
            let told: Vec<String> = classes.iter().map(|(place, count)| format!("{} {count}", place.name())).collect();
            unknown.push(format!(
                "why the socket dropped {drops}: its namespace counted, other sockets included, {}",
                told.join(", ")
            ));
        }
    }
}
