//! Which receivers a port has, and what each of them is accounted for.

use std::net::SocketAddr;

use weir_trace::{Cast, Detail, Trace};

use super::book::Ledger;
use super::evidence::{Evidence, SocketSeen};
use super::ledger::ledger;

/// Whose ledger it is, of all that receive at a port.
pub(super) struct Share<'a> {
    /// The receiving socket, or those that share what comes; empty: nobody received.
    pub(super) receivers: Vec<&'a SocketSeen>,
    /// Whether each receiver gets every datagram.
    pub(super) copies: bool,
    /// Why what was sent to the port is not what was sent to the receiver, if it is not.
    pub(super) partial: Option<&'static str>,
}

/// The ledgers of a port. `everybody`: all UDP sockets seen, to name the senders.
pub(super) fn ledgers(evidence: &Evidence, everybody: &[SocketSeen]) -> Vec<Ledger> {
    shares(evidence, everybody).iter().map(|share| ledger(evidence, everybody, share)).collect()
}

fn shares<'a>(evidence: &'a Evidence, everybody: &[SocketSeen]) -> Vec<Share<'a>> {
    let all = &evidence.sockets;
    let to_group = copies(evidence, everybody);
    let copies = to_group || most_came(evidence, Cast::Broadcast);
    // A broadcast is taken by who is bound to its address, too, which looks like any other.
    let takes = |socket: &&SocketSeen| takes_groups(socket) || !to_group && is_active(&evidence.trace, socket);
    let receivers: Vec<&SocketSeen> = all.iter().filter(takes).collect();
    // Sockets bound to an address of the host take no group, whatever else goes to their port.
    if copies && (!receivers.is_empty() || all.is_empty()) {
        let mut chains = incarnations(&receivers);
        if chains.is_empty() {
            chains.push(Vec::new());
        }
        // Alone, its ledger has what went past it before and after, too.
        let is_whole = |chain: &[&SocketSeen]| {
            evidence.detail != Some(Detail::Everything)
                || all.len() == chain.len()
                || chain.first().is_none_or(|first| first.came.is_none())
                    && chain.last().is_none_or(|last| last.went.is_none())
        };
        let share = |receivers: Vec<&'a SocketSeen>| {
            let partial = (!is_whole(&receivers)).then_some(CAME_OR_WENT);
            Share { receivers, copies, partial }
        };
        return chains.into_iter().map(share).collect();
    }
    let active: Vec<&SocketSeen> = all.iter().filter(|socket| is_active(&evidence.trace, socket)).collect();
    let (receivers, others): (Vec<_>, Vec<_>) = match (active.is_empty(), &all[..]) {
        (true, [only]) => (vec![only], vec![]),
        _ => active.into_iter().partition(|socket| socket.chosen),
    };
    let partial = (!others.is_empty() && !receivers.is_empty()).then_some(OTHER_SOCKETS);
    vec![Share { receivers, copies: false, partial }]
}

const OTHER_SOCKETS: &str = "other sockets, which are not followed, receive at the same port";
const CAME_OR_WENT: &str = "it came, or went, while others of its group received";

/// Whether a socket may receive groups: it is bound to one, or to any address.
fn takes_groups(socket: &SocketSeen) -> bool {
    socket.local.is_none_or(|local| local.ip().is_multicast() || local.ip().is_unspecified())
}

/// Sockets that followed one another at one address: a program that was started again.
fn incarnations<'a>(receivers: &[&'a SocketSeen]) -> Vec<Vec<&'a SocketSeen>> {
    let mut chains: Vec<Vec<&SocketSeen>> = Vec::new();
    for &receiver in receivers {
        let is_followed = |last: &&SocketSeen| {
            let apart = last.went.zip(receiver.came).is_some_and(|(went, came)| went <= came);
            apart && last.namespace == receiver.namespace && last.local == receiver.local
        };
        match chains.iter_mut().find(|chain| chain.last().is_some_and(is_followed)) {
            Some(chain) => chain.push(receiver),
            None => chains.push(vec![receiver]),
        }
    }
    chains
}

/// Whether a socket took datagrams, or dropped them.
fn is_active(trace: &Trace, socket: &SocketSeen) -> bool {
    let took = trace.sockets.iter().any(|traced| traced.cookie == socket.cookie && traced.enqueued + traced.reads > 0);
    let dropped = trace.drops.iter().any(|drop| !drop.outgoing && drop.cookie == socket.cookie && drop.datagrams > 0);
    took || dropped || socket.drops > 0
}

/// Whether each receiver of a port gets each datagram: it is sent to a group.
fn copies(evidence: &Evidence, everybody: &[SocketSeen]) -> bool {
    if evidence.group.is_some() {
        return true;
    }
    let to_group = |address: Option<SocketAddr>| {
        address.is_some_and(|address| address.port() == evidence.port && address.ip().is_multicast())
    };
    if everybody.iter().any(|socket| to_group(socket.local) || to_group(socket.peer)) {
        return true;
    }
    most_came(evidence, Cast::Group)
}

/// Whether at least half of what came to a port came so: what goes to each of its receivers and what goes to one of them cannot be
/// in one ledger.
fn most_came(evidence: &Evidence, cast: Cast) -> bool {
    let (mut all, mut so) = (0, 0);
    for count in evidence.trace.arrivals.iter().filter(|count| count.port == evidence.port) {
        all += count.datagrams;
        so += if count.cast == cast { count.datagrams } else { 0 };
    }
    so > 0 && so * 2 >= all
}

#[cfg(test)]
mod tests {
    use weir_trace::{Drop, InterfaceCount, Sends, SocketTrace};

    use super::*;
    use crate::account::evidence::NamespaceEvidence;

    const PORT: u16 = 5000;
    const SENDER: u32 = 1;
    const RECEIVER: u32 = 2;

    fn passed(namespace: u32, cookie: u64, datagrams: u64) -> InterfaceCount {
        InterfaceCount {
            namespace,
            interface: 2,
            port: PORT,
            cookie,
            datagrams,
            bytes: datagrams * 100,
            ..InterfaceCount::default()
        }
    }

    /// Of 20 datagrams, with the copy that the sender's own host gets and nobody there takes.
    fn sent() -> Trace {
        let sends = Sends { cookie: 10, namespace: SENDER, port: PORT, calls: 20, datagrams: 20, ..Sends::default() };
        let looped = Drop {
            reason: "NOT_SPECIFIED".to_owned(),
            function: "__udp4_lib_mcast_deliver".to_owned(),
            namespace: SENDER,
            port: PORT,
            datagrams: 20,
            buffers: 20,
            ..Drop::default()
        };
        Trace {
            sends: vec![sends],
            departures: vec![passed(SENDER, 10, 20)],
            arrivals: vec![InterfaceCount { cast: Cast::Broadcast, ..passed(SENDER, 0, 20) }],
            drops: vec![looped],
            ..Trace::default()
        }
    }

    /// The ledgers of sockets that read so many each, of 20 that came, so many of them as broadcasts.
    fn close(mut trace: Trace, read: &[u64], broadcasts: u64) -> Vec<Ledger> {
        let socket = |(cookie, &reads): (u64, &u64)| SocketTrace {
            cookie,
            namespace: RECEIVER,
            port: PORT,
            enqueued: reads,
            reads,
            read_datagrams: Some(reads),
            read_bytes: reads * 100,
            queued_before: Some(0),
            ..SocketTrace::default()
        };
        trace.sockets = (20..).zip(read).map(socket).collect();
        trace.arrivals.push(passed(RECEIVER, 0, 20 - broadcasts));
        trace.arrivals.push(InterfaceCount { cast: Cast::Broadcast, ..passed(RECEIVER, 0, broadcasts) });
        let namespaces = [SENDER, RECEIVER].map(|inode| NamespaceEvidence { inode, ..NamespaceEvidence::default() });
        let namespaces = namespaces.to_vec();
        let local = Some("0.0.0.0:5000".parse().unwrap());
        let seen = |cookie| SocketSeen { local, gone: false, ..SocketSeen::traced(cookie, RECEIVER) };
        let sockets = (20..).zip(read).map(|(cookie, _)| seen(cookie)).collect();
        let detail = Some(Detail::Everything);
        ledgers(&Evidence { port: PORT, sockets, detail, trace, namespaces, ..Evidence::default() }, &[])
    }

    #[test]
    fn each_socket_of_a_port_has_its_own_copy_of_a_broadcast() {
        for (trace, sent) in [(sent(), Some(20)), (Trace::default(), None)] {
            let ledgers = close(trace, &[20, 20], 20);
            assert_eq!(ledgers.len(), 2, "{ledgers:#?}");
            for ledger in ledgers {
                let told = (ledger.sent, ledger.arrived, ledger.received, ledger.unexplained);
                assert_eq!(told, (sent, Some(20), Some(20), Some(0)), "{ledger:#?}");
                assert!(ledger.places.is_empty() && ledger.explanation.is_empty(), "{ledger:#?}");
            }
        }
        // Alone; the copy that stayed with its sender is none that was lost.
        let ledgers = close(sent(), &[20], 20);
        let told: Vec<_> = ledgers.iter().map(|ledger| (ledger.sent, ledger.received, ledger.unexplained)).collect();
        assert_eq!(told, [(Some(20), Some(20), Some(0))], "{ledgers:#?}");
    }

    #[test]
    fn sockets_that_share_what_comes_have_one_ledger_whatever_others_broadcast() {
        let ledgers = close(Trace::default(), &[12, 8], 0);
        let told: Vec<_> = ledgers.iter().map(|ledger| (ledger.received, ledger.unexplained)).collect();
        assert_eq!(told, [(Some(20), Some(0))], "{ledgers:#?}");
        // A few broadcasts among what goes to one: no rule of a firewall is to blame.
        let ledgers = close(Trace::default(), &[20, 5], 5);
        let [ledger] = &ledgers[..] else { panic!("{ledgers:#?}") };
        assert!(
            ledger.explanation[0].starts_with("5 more were read than came to this port: a broadcast"),
            "{ledger:#?}"
        );
    }
}
