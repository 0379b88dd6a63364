//! What eBPF counted, by place.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use weir_trace::{SocketTrace, Trace};

use super::snapshot::{Count, Counted, Drops, Snapshot, Socket, SocketDrops};
use crate::places::Place;

/// Where sockets of a port have been seen. A queue that is thrown away with its socket tells its namespace no more.
#[derive(Debug, Default)]
pub(super) struct Ports(HashMap<u16, BTreeSet<u32>>);

impl Ports {
    pub(super) fn saw(&mut self, port: u16, namespace: u32) {
        self.0.entry(port).or_default().insert(namespace);
    }

    /// The one namespace that has had sockets of the port.
    fn only(&self, port: u16) -> Option<u32> {
        self.0.get(&port).filter(|namespaces| namespaces.len() == 1)?.first().copied()
    }
}

/// Namespace, port, place, reason and function.
type DropsRow<'a> = (Option<u32>, Option<u16>, Place, &'a str, &'a str);

/// A trace, and what is needed to read it.
pub(super) struct Traced<'a> {
    pub(super) trace: &'a Trace,
    pub(super) ports: &'a Ports,
    /// Whether more than drops is traced.
    pub(super) has_queues: bool,
}

impl Traced<'_> {
    /// Adds drops by place, and to each socket what was traced of it. `strangers`: also drops of which nobody knows the
    /// namespace, to ports that no socket was seen to have; else it is told how many these are.
    pub(super) fn add(&self, now: &mut Snapshot, strangers: bool) {
        let mut drops: BTreeMap<DropsRow<'_>, u64> = BTreeMap::new();
        let mut of_sockets: HashMap<u64, BTreeMap<Place, u64>> = HashMap::new();
        let mut found_by_reader: HashMap<u16, u64> = HashMap::new();
        let mut somewhere = 0;
        for drop in &self.trace.drops {
            let found = drop.namespace == 0 && drop.is_found_by_reader();
            if found {
                *found_by_reader.entry(drop.port).or_default() += drop.datagrams;
            }
            let is_known = drop.namespace != 0 || strangers || !found && self.ports.0.contains_key(&drop.port);
            if !is_known {
                // What readers found damaged their sockets count.
                somewhere += if found { 0 } else { drop.datagrams };
                continue;
            }
            let namespace = match drop.namespace {
                0 => self.ports.only(drop.port).filter(|_| strangers),
                known => Some(known),
            };
            let place = Place::of_drop(&drop.reason, &drop.function, drop.outgoing);
            let port = (drop.port != 0).then_some(drop.port);
            *drops.entry((namespace, port, place, &drop.reason, &drop.function)).or_default() += drop.datagrams;
            if drop.cookie != 0 && !drop.outgoing {
                *of_sockets.entry(drop.cookie).or_default().entry(place).or_default() += drop.datagrams;
            }
        }
        let mut sockets_of: HashMap<u16, usize> = HashMap::new();
        now.sockets.iter().for_each(|socket| *sockets_of.entry(socket.port).or_default() += 1);
        for socket in &now.sockets {
            // What readers found damaged is counted by their socket alone: by that of the port, if there is one.
            let alone = sockets_of.get(&socket.port) == Some(&1);
            let (Some(cookie), Some(found), true) = (socket.cookie, found_by_reader.get(&socket.port), alone) else {
                continue;
            };
            let own = of_sockets.entry(cookie).or_default();
            let beyond = socket.drops.total.saturating_sub(own.values().sum()).min(*found);
            if beyond > 0 {
                *own.entry(Place::UdpChecksum).or_default() += beyond;
                if !strangers {
                    let row = (Some(socket.namespace), Some(socket.port), Place::UdpChecksum, "UDP_CSUM", "");
                    *drops.entry(row).or_default() += beyond;
                }
            }
        }
        now.sources.trace_missed_namespaces = somewhere;
        now.drops.extend(drops.into_iter().map(|((namespace, port, place, reason, function), datagrams)| Drops {
            namespace,
            port,
            place,
            reason: reason.to_owned(),
            function: function.to_owned(),
            datagrams: Count::new(datagrams),
            rows: 0,
        }));
        let traced: HashMap<u64, &SocketTrace> =
            self.trace.sockets.iter().map(|socket| (socket.cookie, socket)).collect();
        for socket in &mut now.sockets {
            let Some(cookie) = socket.cookie else { continue };
            if let Some(places) = of_sockets.remove(&cookie) {
                socket.places = places.into_iter().map(|(place, datagrams)| SocketDrops { place, datagrams }).collect();
            }
            if self.has_queues {
                self.add_queue(socket, traced.get(&cookie).copied());
            }
        }
    }

    fn add_queue(&self, socket: &mut Socket, traced: Option<&SocketTrace>) {
        socket.lower_bound = self.trace.missed.sockets + self.trace.missed.queues > 0;
        // Nothing of it yet: nothing has come, or nobody can know.
        let nothing = SocketTrace { read_datagrams: Some(0), ..SocketTrace::default() };
        let Some(traced) = traced.or((!socket.lower_bound).then_some(&nothing)) else { return };
        socket.received = traced.read_datagrams.map(Count::new);
        socket.received_bytes = Some(Count::new(traced.read_bytes));
        socket.queue_max_bytes = socket.queue_max_bytes.max(traced.level_max.into());
        socket.longest_stall_ms = Some(traced.longest_stall_ns as f64 / 1e6);
    }
}

/// What each counter has counted beyond what was traced.
pub(super) fn untraced(drops: &[Drops], counted: &[Counted]) -> Vec<u64> {
    let mut traced: HashMap<(Option<u32>, Place), u64> = HashMap::new();
    for drops in drops {
        let place = drops.place.counted_at();
        let whole = drops.namespace.map(|_| (None, place));
        for key in [Some((drops.namespace, place)), whole].into_iter().flatten() {
            *traced.entry(key).or_default() += drops.datagrams.total;
        }
    }
    let beyond = |counted: &Counted| {
        let traced = traced.entry((counted.namespace, counted.place)).or_default();
        let both = counted.datagrams.total.min(*traced);
        *traced -= both;
        counted.datagrams.total - both
    };
    counted.iter().map(beyond).collect()
}

#[cfg(test)]
mod tests {
    use weir_trace::Drop;

    use super::super::fixture;
    use super::*;

    fn add(now: &mut Snapshot, trace: &Trace, ports: &Ports, has_queues: bool, strangers: bool) {
        Traced { trace, ports, has_queues }.add(now, strangers);
    }

    /// What the kernel had no room for is unknown, or a lower bound, and never 0.
    #[test]
    fn what_gave_way_is_no_zero() {
        let mut now = fixture::first();
        let cookie = |port: u16| now.sockets.iter().find(|socket| socket.port == port).unwrap().cookie.unwrap();
        let traced = SocketTrace { cookie: cookie(514), read_datagrams: Some(3), ..SocketTrace::default() };
        let mut trace = Trace { sockets: vec![traced], ..Trace::default() };
        trace.missed.sockets = 1;
        trace.drops.push(Drop { reason: "NO_SOCKET".into(), namespace: 1, datagrams: 9, ..Drop::default() });
        add(&mut now, &trace, &Ports::default(), true, false);
        let of = |port: u16| {
            let socket = now.sockets.iter().find(|socket| socket.port == port).unwrap();
            (socket.received.map(|received| received.total), socket.lower_bound)
        };
        assert_eq!([of(5000), of(514)], [(None, true), (Some(3), true)]);
        let [told] = &now.drops[..] else { panic!("{:?}", now.drops) };
        assert_eq!((told.port, told.datagrams.total), (None, 9));
    }

    #[test]
    fn drops_are_told_by_place_and_of_the_socket_they_belong_to() {
        let mut now = fixture::first();
        let cookie = |port: u16| now.sockets.iter().find(|socket| socket.port == port).unwrap().cookie.unwrap();
        let (busy, quiet) = (cookie(5000), cookie(514));
        let drop = |reason: &str, cookie, interface, outgoing, datagrams| Drop {
            reason: reason.into(),
            port: 5000,
            namespace: 1,
            interface,
            cookie,
            outgoing,
            datagrams,
            ..Drop::default()
        };
        let trace = Trace {
            drops: vec![
                drop("SOCKET_RCVBUFF", busy, 1, false, 20),
                drop("SOCKET_RCVBUFF", busy, 2, false, 3),
                drop("NETFILTER_DROP", quiet, 1, true, 5),
            ],
            sockets: vec![SocketTrace {
                cookie: busy,
                read_datagrams: None,
                read_bytes: 100,
                level_max: 300_000,
                longest_stall_ns: 41_200_000,
                ..SocketTrace::default()
            }],
            ..Trace::default()
        };
        add(&mut now, &trace, &Ports::default(), true, false);
        let told: Vec<_> = now.drops.iter().map(|drops| (drops.place, drops.datagrams.total)).collect();
        assert_eq!(told, [(Place::FirewallOut, 5), (Place::ReceiveBuffer, 23)]);
        let of = |port: u16| now.sockets.iter().find(|socket| socket.port == port).unwrap();
        assert_eq!(of(5000).places, [SocketDrops { place: Place::ReceiveBuffer, datagrams: 23 }]);
        assert_eq!((of(5000).received, of(5000).received_bytes), (None, Some(Count::new(100))));
        assert_eq!((of(5000).queue_max_bytes, of(5000).longest_stall_ms), (300_000, Some(41.2)));
        // What it sent is not lost at it; of a socket that nothing came to nothing was read.
        assert_eq!((of(514).places.len(), of(514).received), (0, Some(Count::new(0))));

        let mut now = fixture::first();
        add(&mut now, &trace, &Ports::default(), false, false);
        assert!(now.sockets.iter().all(|socket| socket.received.is_none() && socket.longest_stall_ms.is_none()));
    }

    /// Of the damaged ones that a reader found the kernel does not say whose they were: as many as the socket counts are its.
    #[test]
    fn what_readers_found_damaged_is_lost_at_the_socket_that_counts_it() {
        let drop = |datagrams| Drop {
            reason: "UDP_CSUM".into(),
            function: "udp_recvmsg".into(),
            port: 514,
            datagrams,
            ..Drop::default()
        };
        for (traced, counted, told) in [(7, 7, 7), (9, 7, 7), (5, 7, 5)] {
            let mut now = fixture::first();
            now.sockets.iter_mut().find(|socket| socket.port == 514).unwrap().drops = Count::new(counted);
            let trace = Trace { drops: vec![drop(traced)], ..Trace::default() };
            add(&mut now, &trace, &Ports::default(), true, false);
            let socket = now.sockets.iter().find(|socket| socket.port == 514).unwrap();
            assert_eq!(socket.places, [SocketDrops { place: Place::UdpChecksum, datagrams: told }]);
            assert_eq!(now.drops[0].datagrams.total, told);
        }
    }

    #[test]
    fn what_was_counted_before_is_told_apart() {
        let mut now = fixture::at(60);
        now.drops[0].datagrams = Count::new(59_000);
        let told: Vec<(&str, u64)> = now
            .counted
            .iter()
            .map(|counted| counted.counter.as_str())
            .zip(untraced(&now.drops, &now.counted))
            .filter(|(_, beyond)| *beyond > 0)
            .collect();
        assert_eq!(told, [("Udp.RcvbufErrors", 1_000), ("eth0 rx_missed", 720)]);
    }

    #[test]
    fn what_was_thrown_away_with_its_socket_belongs_to_who_had_the_port() {
        let drop = |port| Drop { reason: "QUEUE_PURGE".into(), port, datagrams: 1, ..Drop::default() };
        let trace = Trace { drops: [1, 2, 3].map(drop).to_vec(), ..Trace::default() };
        let mut ports = Ports::default();
        ports.saw(1, 7);
        ports.saw(2, 7);
        ports.saw(2, 8);
        let told = |strangers| {
            let mut now = Snapshot::default();
            add(&mut now, &trace, &ports, true, strangers);
            now.drops.iter().map(|drops| (drops.port.unwrap(), drops.namespace)).collect::<Vec<_>>()
        };
        assert_eq!(told(false), [(1, None), (2, None)]);
        assert_eq!(told(true), [(2, None), (3, None), (1, Some(7))]);
    }

    /// Sockets that live for less than an interval and are closed unread: nobody lists them, and their queues tell no namespace.
    #[test]
    fn what_is_in_no_place_for_its_namespace_is_not_known_is_counted() {
        let drop = |reason: &str, function: &str, port, datagrams| Drop {
            reason: reason.into(),
            function: function.into(),
            port,
            datagrams,
            ..Drop::default()
        };
        let purged = |port, datagrams| drop("QUEUE_PURGE", "udp_destruct_common", port, datagrams);
        let trace = Trace {
            drops: vec![
                purged(40_000, 1),
                purged(40_001, 2),
                purged(0, 4),
                // What readers found damaged is counted by their sockets.
                drop("UDP_CSUM", "udp_recvmsg", 40_003, 16),
            ],
            ..Trace::default()
        };
        let told = |trace: &Trace, strangers| {
            let mut now = Snapshot::default();
            add(&mut now, trace, &Ports::default(), true, strangers);
            let sum: u64 = now.drops.iter().map(|drops| drops.datagrams.total).sum();
            (sum, now.sources.trace_missed_namespaces)
        };
        assert_eq!(told(&trace, false), (0, 7));
        // Who watches all namespaces has them all in their place.
        assert_eq!(told(&trace, true), (23, 0));
    }
}
