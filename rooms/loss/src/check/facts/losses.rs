//! What is lost while it is looked, each kind by the source that knows most of it: an account can name it, so a check may not
//! clear it.

use std::collections::{BTreeMap, BTreeSet};

use nix::errno::Errno;
use serde::Serialize;
use weir_trace::{Detail, Drop, Trace};

use crate::places::{Place, Stage};
use crate::reading::Loss;

/// Datagrams lost for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Where.
    pub place: Place,
    /// How many while we looked; packets, where a counter tells.
    pub datagrams: u64,
    /// What counted them: `kfree_skb`, `send calls`, or a counter.
    pub source: String,
    /// The kernel's reason, or the error of the calls; empty: a counter tells none.
    pub reason: String,
    /// The function that dropped them; empty: not known.
    pub function: String,
    /// Ports that they went to, those with most first; empty: not known.
    pub ports: Vec<u16>,
    /// The socket at which they were lost.
    pub cookie: Option<u64>,
    /// Whether they went to other ports than those of the receivers that were asked for, and were lost for that: nobody's loss
    /// who was asked for.
    pub stray: bool,
}

impl Lost {
    /// The ports, the first of them: `port 9`, `ports 9, 10`; `None`: not known.
    pub(in crate::check) fn ports_in_words(&self) -> Option<String> {
        let ports: Vec<String> = self.ports.iter().take(SHOWN).map(u16::to_string).collect();
        let noun = if self.ports.len() == 1 { "port" } else { "ports" };
        let more = if self.ports.len() > SHOWN { " and others" } else { "" };
        (!ports.is_empty()).then(|| format!("{noun} {}{more}", ports.join(", ")))
    }
}

/// Ports that are named.
const SHOWN: usize = 4;

/// What is lost of one namespace's datagrams. `trace`: what was traced meanwhile, and how much that is; `counted`: what its
/// counters tell of the same time; `own`: what sockets that are known by cookie dropped; `asked_for`: ports of the receivers
/// that were asked for, empty: everything was.
pub(super) fn losses(
    trace: Option<(&Trace, Detail)>,
    namespace: u32,
    counted: &[Loss],
    own: &BTreeMap<u64, u64>,
    asked_for: &BTreeSet<u16>,
) -> Vec<Lost> {
    let mut losses = Vec::new();
    if let Some((trace, _)) = trace {
        losses.extend(dropped(trace, namespace, counted, own, asked_for));
        losses.extend(failed_calls(trace, namespace, &losses));
    }
    losses.extend(untold(trace, counted, &losses));
    losses.sort_by_key(|lost| std::cmp::Reverse(lost.datagrams));
    losses
}

fn dropped(
    trace: &Trace,
    namespace: u32,
    counted: &[Loss],
    own: &BTreeMap<u64, u64>,
    asked_for: &BTreeSet<u16>,
) -> Vec<Lost> {
    type Key<'a> = (Place, &'a str, &'a str, Option<u64>, bool, bool);
    let mut all: BTreeMap<Key<'_>, BTreeMap<u16, u64>> = BTreeMap::new();
    // Who found them damaged is not told: as many as this namespace's sockets count.
    let checksums =
        counted.iter().filter(|loss| loss.place == Place::UdpChecksum).map(|loss| loss.packets).sum::<u64>();
    let named = |drop: &&Drop| drop.namespace == namespace && drop.is_found_by_reader();
    let named: u64 = trace.drops.iter().filter(named).map(|drop| drop.datagrams).sum();
    let mut unnamed = checksums.saturating_sub(named);
    for drop in &trace.drops {
        let mut datagrams = drop.datagrams;
        let place = Place::of_drop(&drop.reason, &drop.function, drop.outgoing);
        // What was thrown away with its socket tells no namespace: it is told of a port that was asked for.
        let is_asked = drop.namespace == 0 && place == Place::ClosedUnread && asked_for.contains(&drop.port);
        if drop.namespace == 0 && drop.is_found_by_reader() {
            datagrams = datagrams.min(unnamed);
            unnamed -= datagrams;
        } else if drop.namespace != namespace && !is_asked {
            continue;
        }
        let at_socket = drop.cookie != 0 && !drop.outgoing && own.contains_key(&drop.cookie);
        let others = !asked_for.is_empty() && !asked_for.contains(&drop.port);
        let is_stray = others && is_chosen_by_port(place);
        let cookie = at_socket.then_some(drop.cookie);
        let key = (place, drop.reason.as_str(), drop.function.as_str(), cookie, others, is_stray);
        *all.entry(key).or_default().entry(drop.port).or_default() += datagrams;
    }
    let lost = |((place, reason, function, cookie, _, stray), ports): (Key<'_>, BTreeMap<u16, u64>)| Lost {
        place,
        datagrams: ports.values().sum(),
        source: KFREE_SKB.to_owned(),
        reason: reason.to_owned(),
        function: function.to_owned(),
        ports: most_first(ports),
        cookie,
        stray,
    };
    all.into_iter().map(lost).filter(|lost| lost.datagrams > 0).collect()
}

/// Whether what is lost there is chosen by where it goes: what is lost to one port says nothing of another. What all share (a
/// queue, memory) loses anybody's.
fn is_chosen_by_port(place: Place) -> bool {
    matches!(
        place,
        Place::PortClosed
            | Place::Firewall
            | Place::FirewallOut
            | Place::IngressFilter
            | Place::Xdp
            | Place::NotJoined
            | Place::NoMatchingSocket
    )
}

/// Calls that failed, but for those that tell of a drop.
fn failed_calls(trace: &Trace, namespace: u32, dropped: &[Lost]) -> Vec<Lost> {
    let mut failed: BTreeMap<i32, BTreeMap<u16, u64>> = BTreeMap::new();
    for sends in trace.sends.iter().filter(|sends| sends.namespace == namespace && sends.errno != 0) {
        *failed.entry(sends.errno).or_default().entry(sends.port).or_default() += sends.datagrams;
    }
    let mut lost = Vec::new();
    for (number, ports) in failed {
        let errno = Errno::from_raw(number);
        let place = Place::of_failed_call(errno);
        let tells = |known: &&Lost| match errno {
            Errno::EPERM => known.place == Place::FirewallOut,
            Errno::ENOBUFS => matches!(known.place, Place::Qdisc | Place::Transmit | Place::Backlog),
            Errno::EMSGSIZE => known.place == Place::SendError,
            _ => false,
        };
        let known: u64 = dropped.iter().filter(tells).map(|known| known.datagrams).sum();
        let datagrams = ports.values().sum::<u64>().saturating_sub(known);
        let (source, reason) = ("send calls".to_owned(), format!("{errno:?}"));
        lost.push(Lost { place, datagrams, source, reason, ports: most_first(ports), ..Lost::default() });
    }
    lost.retain(|lost| lost.datagrams > 0);
    lost
}

/// What counters tell and nothing else does. Where everything is traced, a counter of all protocols that no drop of a
/// datagram belongs to counts others.
fn untold(trace: Option<(&Trace, Detail)>, counted: &[Loss], told: &[Lost]) -> Vec<Lost> {
    let whole = trace.is_some_and(|(trace, _)| trace.missed.total() == 0);
    let calls = trace.is_some_and(|(_, detail)| detail == Detail::Everything);
    let mut untold = Vec::new();
    for loss in counted.iter().filter(|loss| loss.packets > 0) {
        let of_udp = matches!(loss.place.stage(), Stage::Port | Stage::Socket);
        // Where the first fragment never came, no tracepoint tells of the datagram.
        let is_sure = match loss.place {
            Place::Reassembly => false,
            Place::NoRoute => calls,
            _ => !loss.of_card && !of_udp,
        };
        let traced = whole && is_sure;
        let known: u64 =
            told.iter().filter(|lost| lost.place.counted_at() == loss.place).map(|lost| lost.datagrams).sum();
        if traced || known >= loss.packets || known > 0 && !of_udp {
            continue;
        }
        let (datagrams, source) = (loss.packets - known, loss.name.clone());
        untold.push(Lost { place: loss.place, datagrams, source, ..Lost::default() });
    }
    untold
}

/// What tells of drops that are traced.
const KFREE_SKB: &str = "kfree_skb";

fn most_first(ports: BTreeMap<u16, u64>) -> Vec<u16> {
    let mut ports: Vec<(u16, u64)> = ports.into_iter().filter(|(port, count)| *port != 0 && *count > 0).collect();
    ports.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    ports.into_iter().take(MOST_PORTS).map(|(port, _)| port).collect()
}

/// Ports that are told of one reason.
const MOST_PORTS: usize = 16;

#[cfg(test)]
mod tests {
    use weir_kernel::counters::Counter;
    use weir_trace::Sends;

    use super::*;

    const HERE: u32 = 7;

    fn drop(reason: &str, function: &str, namespace: u32, cookie: u64, port: u16, datagrams: u64) -> Drop {
        let (reason, function) = (reason.into(), function.into());
        Drop { reason, function, namespace, cookie, port, datagrams, ..Drop::default() }
    }

    fn counter(place: Place, counter: Counter, packets: u64) -> Loss {
        Loss::new(place, counter, 0, counter.to_string(), packets)
    }

    fn told(trace: &Trace, detail: Detail, counted: &[Loss]) -> Vec<(Place, u64, String, Option<u64>)> {
        let own = BTreeMap::from([(5, 9)]);
        let losses = losses(Some((trace, detail)), HERE, counted, &own, &BTreeSet::new()).into_iter();
        losses.map(|lost| (lost.place, lost.datagrams, lost.source, lost.cookie)).collect()
    }

    #[test]
    fn each_loss_is_told_once_by_who_knows_most() {
        let trace = Trace {
            drops: vec![
                drop("NETFILTER_DROP", "nft_do_chain", HERE, 0, 5000, 700),
                drop("NETFILTER_DROP", "nft_do_chain", 8, 0, 5000, 10),
                drop("NO_SOCKET", "__udp4_lib_rcv", HERE, 0, 9, 50),
                drop("UDP_CSUM", "udp_recvmsg", 0, 0, 5000, 40),
                drop("SOCKET_RCVBUFF", "udp_queue_rcv_one_skb", HERE, 5, 5000, 9),
            ],
            sends: vec![Sends { namespace: HERE, errno: Errno::ENETUNREACH as i32, datagrams: 3, ..Sends::default() }],
            ..Trace::default()
        };
        let counted = [
            counter(Place::PortClosed, Counter::Snmp("Udp", "NoPorts"), 50),
            counter(Place::UdpChecksum, Counter::Snmp("Udp", "InCsumErrors"), 30),
            counter(Place::NoRoute, Counter::Snmp("Ip", "OutNoRoutes"), 3),
            counter(Place::Qdisc, Counter::Qdisc, 4),
            counter(Place::ReceiveRing, Counter::RxMissed, 2),
        ];
        let skb = || "kfree_skb".to_owned();
        assert_eq!(
            told(&trace, Detail::Everything, &counted),
            [
                (Place::Firewall, 700, skb(), None),
                (Place::PortClosed, 50, skb(), None),
                // Ten of them were another namespace's.
                (Place::UdpChecksum, 30, skb(), None),
                (Place::ReceiveBuffer, 9, skb(), Some(5)),
                (Place::NoRoute, 3, "send calls".to_owned(), None),
                // The queue dropped what was no datagram.
                (Place::ReceiveRing, 2, Counter::RxMissed.to_string(), None),
            ]
        );
    }

    #[test]
    fn what_comes_to_a_closed_port_of_nobody_who_was_asked_for_is_stray() {
        let trace = Trace {
            drops: vec![
                drop("NO_SOCKET", "__udp4_lib_rcv", HERE, 0, 9, 50),
                drop("NO_SOCKET", "__udp4_lib_rcv", HERE, 0, 5000, 7),
                drop("NETFILTER_DROP", "nft_do_chain", HERE, 0, 9, 3),
            ],
            ..Trace::default()
        };
        let counted = [counter(Place::PortClosed, Counter::Snmp("Udp", "NoPorts"), 57)];
        let told = |asked_for: &[u16]| -> Vec<(Place, u64, bool)> {
            let asked_for = asked_for.iter().copied().collect();
            let trace = Some((&trace, Detail::Everything));
            let losses = losses(trace, HERE, &counted, &BTreeMap::new(), &asked_for).into_iter();
            losses.map(|lost| (lost.place, lost.datagrams, lost.stray)).collect()
        };
        assert_eq!(told(&[]), [(Place::PortClosed, 57, false), (Place::Firewall, 3, false)]);
        let (stray, own) = ((Place::PortClosed, 50, true), (Place::PortClosed, 7, false));
        assert_eq!(told(&[5000]), [stray, own, (Place::Firewall, 3, true)]);
    }

    #[test]
    fn what_is_lost_to_other_ports_is_not_told_as_of_the_port_that_was_asked_for() {
        let trace = Trace {
            drops: vec![
                drop("NETFILTER_DROP", "nft_do_chain", HERE, 0, 5000, 7),
                drop("NETFILTER_DROP", "nft_do_chain", HERE, 0, 9, 50),
                drop("CPU_BACKLOG", "enqueue_to_backlog", HERE, 0, 9, 3),
            ],
            ..Trace::default()
        };
        let trace = Some((&trace, Detail::Everything));
        let told = |asked_for: &[u16]| -> Vec<(Place, u64, Vec<u16>, bool)> {
            let losses = losses(trace, HERE, &[], &BTreeMap::new(), &asked_for.iter().copied().collect());
            losses.into_iter().map(|lost| (lost.place, lost.datagrams, lost.ports, lost.stray)).collect()
        };
        // The backlog is everybody's.
        let backlog = || (Place::Backlog, 3, vec![9], false);
        assert_eq!(told(&[]), [(Place::Firewall, 57, vec![9, 5000], false), backlog()]);
        let (others, own) = ((Place::Firewall, 50, vec![9], true), (Place::Firewall, 7, vec![5000], false));
        assert_eq!(told(&[5000]), [others, own, backlog()]);
    }

    /// Short-lived sockets, of which neither socket nor namespace is known.
    #[test]
    fn what_was_closed_unread_is_told_of_the_port_that_was_asked_for() {
        let trace = Trace {
            drops: vec![
                drop("NOT_SPECIFIED", "udp_destruct_common", 0, 0, 5000, 20),
                drop("NOT_SPECIFIED", "udp_destruct_common", 0, 0, 9, 5),
                drop("NOT_SPECIFIED", "udp_destruct_common", 8, 0, 9, 3),
            ],
            ..Trace::default()
        };
        let told = |asked_for: &[u16]| -> Vec<(Place, u64, bool)> {
            let asked_for = asked_for.iter().copied().collect();
            let trace = Some((&trace, Detail::Everything));
            let losses = losses(trace, HERE, &[], &BTreeMap::new(), &asked_for).into_iter();
            losses.map(|lost| (lost.place, lost.datagrams, lost.stray)).collect()
        };
        assert_eq!((told(&[]), told(&[5000])), (vec![], vec![(Place::ClosedUnread, 20, false)]));
    }

    #[test]
    fn without_a_trace_every_counter_that_moves_is_told() {
        let counted = [
            counter(Place::Qdisc, Counter::Qdisc, 4),
            counter(Place::IpAddress, Counter::Snmp("Ip", "InAddrErrors"), 1),
            counter(Place::PortClosed, Counter::Snmp("Udp", "NoPorts"), 0),
        ];
        let losses = losses(None, HERE, &counted, &BTreeMap::new(), &BTreeSet::new());
        assert_eq!(losses.iter().map(|lost| lost.place).collect::<Vec<_>>(), [Place::Qdisc, Place::IpAddress]);
        // A trace that missed some is none.
        let mut trace = Trace::default();
        trace.missed.drops = 1;
        assert_eq!(told(&trace, Detail::Everything, &counted).len(), 2);
        assert_eq!(told(&Trace::default(), Detail::Everything, &counted).len(), 0);
    }
}
