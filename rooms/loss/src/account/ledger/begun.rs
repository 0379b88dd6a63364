//! Datagrams that were begun before the account: their fragments waited for their others when it began, and were given up while it
//! went on. They were neither sent nor did they arrive in its time, so that they are no loss of it.

use std::collections::HashMap;

use weir_kernel::trace::Drop;

use super::{LedgerBuilder, missing, signed};
use crate::account::evidence::Evidence;
use crate::account::remarks::Explanation;
use crate::places::Place;

/// The evidence of a port without what is known to have been begun before: no fragment of it was seen to pass, and no more than
/// waited in its namespace. What never passed the namespaces followed and did not wait there is another's: it is in no ledger.
/// `None`: there is nothing of the kind.
pub(super) fn left_out(evidence: &Evidence, port: u16) -> Option<Evidence> {
    let begun = evidence.trace.begun_before.iter().filter(|count| count.datagrams > 0);
    let mut unseen: HashMap<(u16, u32), u64> =
        begun.map(|count| ((count.port, count.namespace), count.datagrams)).collect();
    if unseen.is_empty() {
        return None;
    }
    let mut without = evidence.clone();
    let mut waited: HashMap<u32, u64> =
        evidence.namespaces.iter().map(|namespace| (namespace.inode, namespace.waited)).collect();
    let is_of_port = |to: u16| to == port || to == 0 && !evidence.several_ports;
    let given_up = without.trace.drops.iter_mut().filter(|drop| is_of_port(drop.port) && is_given_up(drop));
    let (anywhere, known): (Vec<&mut Drop>, Vec<&mut Drop>) = given_up.partition(|drop| drop.namespace == 0);
    for drop in known {
        let room = waited.entry(drop.namespace).or_default();
        for key in [(drop.port, drop.namespace), (drop.port, 0)] {
            let Some(left) = unseen.get_mut(&key) else { continue };
            let share = drop.datagrams.min(*left).min(*room);
            drop.datagrams -= share;
            drop.buffers -= drop.buffers.min(share);
            *left -= share;
            *room -= share;
            without.begun_before += share;
        }
    }
    // Where it waited is known only of what has passed, which these have not.
    for drop in anywhere {
        let Some(left) = unseen.get_mut(&(drop.port, 0)) else { continue };
        let share = drop.datagrams.min(*left);
        drop.datagrams -= share;
        drop.buffers -= drop.buffers.min(share);
        *left -= share;
        let mut own = share;
        for room in waited.values_mut() {
            let taken = own.min(*room);
            *room -= taken;
            own -= taken;
        }
        without.begun_before += share - own;
    }
    for namespace in &mut without.namespaces {
        namespace.waited = waited.get(&namespace.inode).copied().unwrap_or(0);
    }
    without.trace.drops.retain(|drop| drop.datagrams > 0);
    Some(without)
}

fn is_given_up(drop: &Drop) -> bool {
    !drop.outgoing && Place::of_drop(&drop.reason, &drop.function, false) == Place::Reassembly
}

impl LedgerBuilder<'_> {
    /// What is told beyond what was sent, and may be datagrams that were begun before: no more than were given up, nor than
    /// waited. Returns how many.
    pub(super) fn take_begun_before(&mut self, rest: i64) -> i64 {
        let given_up = self.places.at(Place::Reassembly);
        let share = missing(-rest).min(given_up).min(self.may_have_begun());
        self.places.take(Place::Reassembly, share);
        self.begun_before += share;
        signed(share)
    }

    pub(super) fn explain_begun_before(&mut self) {
        if self.begun_before > 0 {
            self.explanation.push(Explanation::BegunBefore(self.begun_before));
        }
    }

    /// So many more may have been begun before.
    pub(super) fn may_have_begun(&self) -> u64 {
        let waited: u64 = self.evidence.namespaces.iter().map(|namespace| namespace.waited).sum();
        waited.saturating_sub(self.begun_before - self.evidence.begun_before)
    }
}

#[cfg(test)]
mod tests {
    use weir_kernel::trace::{Detail, FragmentCount, InterfaceCount, Sends, SocketTrace, Trace};

    use super::super::{Endpoints, ledger};
    use super::*;
    use crate::account::book::Ledger;
    use crate::account::evidence::{NamespaceEvidence, SocketSeen};

    const PORT: u16 = 5000;
    const SENDER: u32 = 1;
    const RECEIVER: u32 = 2;
    const ROUTER: u32 = 3;

    fn drop(reason: &str, namespace: u32, port: u16, datagrams: u64) -> Drop {
        let reason = reason.to_owned();
        Drop { reason, namespace, port, datagrams, buffers: datagrams, ..Drop::default() }
    }

    fn passed(namespace: u32, cookie: u64, datagrams: u64) -> Vec<InterfaceCount> {
        vec![InterfaceCount { namespace, interface: 2, port: PORT, cookie, datagrams, bytes: datagrams * 3000 }]
    }

    fn counted(namespace: u32, port: u16, datagrams: u64) -> FragmentCount {
        FragmentCount { namespace, port, datagrams }
    }

    fn close(trace: Trace, waited: u64) -> Ledger {
        let namespace = |inode| NamespaceEvidence {
            inode,
            waited: if inode == RECEIVER { waited } else { 0 },
            ..NamespaceEvidence::default()
        };
        let namespaces = vec![namespace(SENDER), namespace(RECEIVER), namespace(ROUTER)];
        let evidence = Evidence { detail: Some(Detail::Everything), trace, namespaces, ..Evidence::default() };
        let local = Some("10.0.0.2:5000".parse().unwrap());
        let socket = SocketSeen { local, gone: false, ..SocketSeen::traced(20, RECEIVER) };
        let all = [socket.clone()];
        ledger(&evidence, &Endpoints { port: PORT, receivers: &[&socket], all: &all, everybody: &[], copies: false })
    }

    fn told(ledger: &Ledger) -> (Vec<(Place, u64)>, Option<i64>) {
        (ledger.places.iter().map(|entry| (entry.place, entry.datagrams)).collect(), ledger.unexplained)
    }

    #[test]
    fn what_was_begun_before_and_given_up_since_is_no_loss_of_the_account() {
        let given_up = |of: &[(u32, u16, u64)]| -> Vec<Drop> {
            of.iter().map(|&(namespace, port, count)| drop("FRAG_REASM_TIMEOUT", namespace, port, count)).collect()
        };
        // With their first fragment, and without, of which nobody knows port and namespace; seven others are its own.
        let trace = Trace {
            drops: given_up(&[(RECEIVER, PORT, 376), (0, 0, 12)]),
            arrivals: passed(RECEIVER, 0, 7),
            begun_before: vec![counted(0, PORT, 369), counted(0, 0, 12)],
            ..Trace::default()
        };
        let ledger = close(trace, 381);
        assert_eq!(told(&ledger), (vec![(Place::Reassembly, 7)], Some(0)), "{ledger:#?}");
        assert!(ledger.explanation.contains(&Explanation::BegunBefore(381)), "{ledger:#?}");
        // Where it is not known which, no more than the ledger cannot do without, nor than waited.
        let trace = Trace { drops: given_up(&[(RECEIVER, PORT, 5)]), ..Trace::default() };
        assert_eq!(told(&close(trace.clone(), 9)), (vec![], Some(0)));
        let ledger = close(trace.clone(), 4);
        assert_eq!(told(&ledger), (vec![(Place::Reassembly, 1)], Some(-1)), "{ledger:#?}");
        assert!(ledger.explanation.contains(&Explanation::ReadMore(1)), "{ledger:#?}");
        // Those that came since are its own, whatever waited before.
        let trace = Trace { arrivals: passed(RECEIVER, 0, 5), ..trace };
        assert_eq!(told(&close(trace, 9)), (vec![(Place::Reassembly, 5)], Some(0)));
    }

    /// Its fragments waited in a namespace that nobody follows: with their first one, and without.
    #[test]
    fn what_was_given_up_elsewhere_is_in_no_ledger() {
        let drops = [(PORT, 3), (0, 200)].map(|(port, count)| drop("FRAG_REASM_TIMEOUT", 0, port, count));
        let trace = Trace {
            drops: drops.to_vec(),
            begun_before: vec![counted(0, PORT, 3), counted(0, 0, 200)],
            ..Trace::default()
        };
        let ledger = close(trace.clone(), 0);
        assert_eq!(told(&ledger), (vec![], Some(0)), "{ledger:#?}");
        assert!(ledger.explanation.is_empty(), "{ledger:#?}");
        // No more than waited here may be its own.
        assert_eq!(close(trace, 4).explanation, [Explanation::BegunBefore(4)]);
    }

    #[test]
    fn what_was_completed_since_is_not_told_as_redirected() {
        let read = SocketTrace {
            cookie: 20,
            namespace: RECEIVER,
            port: PORT,
            enqueued: 3,
            reads: 3,
            read_datagrams: Some(3),
            queued_before: Some(0),
            ..SocketTrace::default()
        };
        let trace = Trace { sockets: vec![read], ..Trace::default() };
        for (waited, expected) in [(3, Explanation::CompleteSince(3)), (2, Explanation::ReadMore(3))] {
            let ledger = close(trace.clone(), waited);
            assert_eq!(ledger.unexplained, Some(-3));
            assert!(ledger.explanation.contains(&expected), "{ledger:#?}");
        }
    }

    /// The first fragment of four came, a later one was dropped by a router between.
    #[test]
    fn what_came_in_part_was_lost_on_the_way_and_has_not_arrived() {
        let read = |reads| SocketTrace {
            cookie: 20,
            namespace: RECEIVER,
            port: PORT,
            enqueued: reads,
            reads,
            read_datagrams: Some(reads),
            read_bytes: reads * 3000,
            queued_before: Some(0),
            ..SocketTrace::default()
        };
        let sent = Sends { cookie: 10, namespace: SENDER, port: PORT, calls: 10, datagrams: 10, ..Sends::default() };
        let trace = Trace {
            drops: vec![drop("NETFILTER_DROP", ROUTER, PORT, 4)],
            arrivals: [passed(ROUTER, 0, 10), passed(RECEIVER, 0, 10)].concat(),
            departures: passed(SENDER, 10, 10),
            sends: vec![sent],
            sockets: vec![read(6)],
            came_in_part: vec![counted(RECEIVER, PORT, 4)],
            ..Trace::default()
        };
        let ledger = close(trace.clone(), 0);
        assert_eq!((ledger.sent, ledger.arrived, ledger.received), (Some(10), Some(6), Some(6)), "{ledger:#?}");
        assert_eq!(told(&ledger), (vec![(Place::Firewall, 4)], Some(0)), "{ledger:#?}");
        assert!(ledger.explanation.is_empty(), "{ledger:#?}");
        // Nobody follows who sends.
        let ledger = close(Trace { sends: vec![], departures: vec![], ..trace }, 0);
        assert_eq!((ledger.sent, ledger.arrived, ledger.unexplained), (None, Some(6), Some(0)), "{ledger:#?}");
        assert_eq!(ledger.explanation, [Explanation::Upstream(4, Place::Firewall)], "{ledger:#?}");
    }

    /// What came in part is found by looking: more of them than there were make no datagram that was read one that did not come.
    #[test]
    fn what_was_read_has_arrived_however_many_came_in_part() {
        let read = SocketTrace {
            cookie: 20,
            namespace: RECEIVER,
            port: PORT,
            enqueued: 6,
            reads: 6,
            read_datagrams: Some(6),
            read_bytes: 18_000,
            queued_before: Some(0),
            ..SocketTrace::default()
        };
        let trace = Trace {
            arrivals: passed(RECEIVER, 0, 10),
            sockets: vec![read],
            came_in_part: vec![counted(RECEIVER, PORT, 7)],
            ..Trace::default()
        };
        let ledger = close(trace, 0);
        assert_eq!((ledger.arrived, ledger.received, ledger.unexplained), (Some(6), Some(6), Some(0)), "{ledger:#?}");
    }

    /// Ten in each buffer, of which 20 bytes were read.
    #[test]
    fn what_is_behind_a_cut_is_not_told_as_redirected() {
        let read = |bytes: u64| SocketTrace {
            cookie: 20,
            namespace: RECEIVER,
            port: PORT,
            enqueued: 5,
            reads: 5,
            read_datagrams: Some(5),
            read_bytes: 5 * bytes,
            queued_before: Some(0),
            ..SocketTrace::default()
        };
        let sends = Sends { cookie: 10, namespace: SENDER, port: PORT, calls: 50, datagrams: 50, ..Sends::default() };
        for (bytes, expected) in [(20, Explanation::BehindCut(45)), (3000, Explanation::VanishedBehind(45))] {
            let trace = Trace {
                sends: vec![sends],
                departures: passed(SENDER, 10, 50),
                arrivals: passed(RECEIVER, 0, 50),
                sockets: vec![read(bytes)],
                ..Trace::default()
            };
            let ledger = close(trace, 0);
            assert_eq!((ledger.received, ledger.unexplained), (Some(5), Some(45)), "{ledger:#?}");
            assert_eq!(ledger.explanation, [expected], "{ledger:#?}");
        }
    }
}
