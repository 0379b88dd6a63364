//! Queueing disciplines: what `tc -s qdisc` shows.

use netlink_sys::protocols::NETLINK_ROUTE;

use crate::Error;
use crate::links::Index;
use crate::namespaces::NetNs;
use crate::netlink::{Raw, Requests, attributes};

/// A queueing discipline and what it counted since it was attached. A super-packet counts as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdisc {
    /// The interface.
    pub interface: Index,
    /// `fq_codel`, `pfifo_fast`, `tbf`, `mq`, `noqueue`.
    pub kind: String,
    /// Its handle, major number in the upper half; 0: made by the kernel.
    pub handle: u32,
    /// The handle of what it belongs to; [`Qdisc::ROOT`]: the interface.
    pub parent: u32,
    /// Packets handed to the interface.
    pub sent_packets: u64,
    /// Their bytes, headers included.
    pub sent_bytes: u64,
    /// Packets it dropped; those of the disciplines below it are included. Wraps at 2^32.
    pub drops: u32,
    /// How often it held packets back. Wraps at 2^32.
    pub overlimits: u32,
    /// How often the interface had no room and a packet went back. No loss. Wraps at 2^32.
    pub requeues: u32,
    /// Packets that wait now.
    pub backlog_packets: u32,
    /// Their bytes.
    pub backlog_bytes: u32,
}

impl Qdisc {
    /// TC_H_ROOT.
    pub const ROOT: u32 = u32::MAX;
}

/// Reads the queueing disciplines of one namespace again and again.
#[derive(Debug)]
pub struct Qdiscs(Requests);

impl Qdiscs {
    /// Opens a netlink socket in `ns`.
    ///
    /// # Errors
    /// If the namespace cannot be entered, or out of file descriptors.
    pub fn open(ns: &NetNs) -> Result<Qdiscs, Error> {
        ns.run(|| Requests::open(NETLINK_ROUTE))?.map(Qdiscs)
    }

    /// All disciplines, those of an interface together. Waits for the kernel's lock on interfaces (RTNL).
    ///
    /// # Errors
    /// If the kernel has none (CONFIG_NET_SCHED).
    pub fn read(&mut self) -> Result<Vec<Qdisc>, Error> {
        // An empty struct tcmsg: all interfaces.
        let request = Raw { kind: libc::RTM_GETQDISC, payload: vec![0; TCMSG] };
        let answers = self.0.list(request, || "list queueing disciplines")?;
        Ok(answers.iter().filter_map(|answer| parse(&answer.payload)).collect())
    }
}

/// All queueing disciplines of a namespace.
///
/// # Errors
/// As [`Qdiscs::open`] and [`Qdiscs::read`].
pub fn qdiscs(ns: &NetNs) -> Result<Vec<Qdisc>, Error> {
    Qdiscs::open(ns)?.read()
}

/// `struct tcmsg` (family, index, handle, parent, info), TCA_KIND and TCA_STATS2 (include/uapi/linux/gen_stats.h). Not by
/// netlink-packet-route: it refuses a whole message for options of a kind that it does not understand, where the counters
/// beside them are all that is wanted, and does not know TCA_STATS_PKT64.
pub(crate) fn parse(payload: &[u8]) -> Option<Qdisc> {
    let (header, rest) = payload.split_first_chunk::<TCMSG>()?;
    let number = |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let mut qdisc = Qdisc {
        interface: number(header, 4)?,
        handle: number(header, 8)?,
        parent: number(header, 12)?,
        ..Qdisc::default()
    };
    let mut packets64 = None;
    for (kind, value) in attributes(rest) {
        match kind {
            TCA_KIND => qdisc.kind = String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned(),
            TCA_STATS2 => {
                for (kind, value) in attributes(value) {
                    match kind {
                        TCA_STATS_BASIC => {
                            qdisc.sent_bytes = u64::from_ne_bytes(*value.first_chunk()?);
                            qdisc.sent_packets = number(value, 8)?.into();
                        }
                        TCA_STATS_QUEUE => {
                            qdisc.backlog_packets = number(value, 0)?;
                            qdisc.backlog_bytes = number(value, 4)?;
                            qdisc.drops = number(value, 8)?;
                            qdisc.requeues = number(value, 12)?;
                            qdisc.overlimits = number(value, 16)?;
                        }
                        TCA_STATS_PKT64 => packets64 = Some(u64::from_ne_bytes(*value.first_chunk()?)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    qdisc.sent_packets = packets64.unwrap_or(qdisc.sent_packets);
    Some(qdisc)
}

/// Length of `struct tcmsg`.
const TCMSG: usize = 20;

const TCA_KIND: u16 = 1;
const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
/// Only there once the count does not fit into 32 bits (from 5.5).
const TCA_STATS_PKT64: u16 = 8;

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use netlink_packet_core::{NLM_F_CREATE, NLM_F_REPLACE};
    use proptest::prelude::*;

    use super::*;
    use crate::links::{MacAddress, Netlink, VethEnd};
    use crate::netlink::attribute;

    /// A token bucket that lets one frame of 1514 bytes pass, then 1000 bytes a second, and holds `limit` bytes.
    fn add_tbf(ns: &NetNs, interface: Index, limit: u32) {
        let rate = [[0, 1, 0, 0], [0; 4], 1000u32.to_ne_bytes()].concat(); // tc_ratespec, link layer Ethernet
        let burst = 15_625 * 1514u32; // the time these bytes take, in ticks of 64 ns
        let parameters = [&rate[..], &[0; 12], &limit.to_ne_bytes(), &burst.to_ne_bytes(), &[0; 4]].concat();
        let options = [attribute(1, &parameters), attribute(6, &1514u32.to_ne_bytes())].concat();
        let mut payload = [0, interface, 0x10000, Qdisc::ROOT, 0].map(u32::to_ne_bytes).concat();
        payload.extend([attribute(TCA_KIND, b"tbf\0"), attribute(2, &options)].concat());
        let mut socket = ns.run(|| Requests::open(NETLINK_ROUTE)).unwrap().unwrap();
        let flags = NLM_F_CREATE | NLM_F_REPLACE;
        socket.change(Raw { kind: libc::RTM_NEWQDISC, payload }, flags, || "add a tbf").unwrap();
    }

    #[test]
    fn what_a_discipline_takes_it_sends_keeps_or_drops() {
        const SENT: u64 = 40;
        const FRAME: u64 = 14 + 20 + 8 + 1000;
        let (ns, other) = (NetNs::create().unwrap(), NetNs::create().unwrap());
        let mut netlink = Netlink::open(&ns).unwrap();
        let end = |ns, name, mac| VethEnd { ns, name, mac: MacAddress::local(mac), mtu: 1500, queue_length: 100 };
        netlink.add_veth(&end(&ns, "a", 1), &end(&other, "b", 2)).unwrap();
        let index = netlink.link("a").unwrap().index;
        netlink.add_address(index, "10.0.0.1/24".parse().unwrap()).unwrap();
        netlink.add_neighbour(index, "10.0.0.2".parse().unwrap(), MacAddress::local(2)).unwrap();
        let mut there = Netlink::open(&other).unwrap();
        let peer = there.link("b").unwrap().index;
        for (netlink, index) in [(&mut netlink, index), (&mut there, peer)] {
            netlink.set_no_link_local(index).unwrap();
            netlink.set_up(index).unwrap();
        }
        netlink.wait_until_running("a").unwrap();
        add_tbf(&ns, index, 10_000);

        let mut qdiscs = Qdiscs::open(&ns).unwrap();
        let mut read = || qdiscs.read().unwrap().into_iter().find(|qdisc| qdisc.interface == index).unwrap();
        let before = read();
        assert_eq!((before.kind.as_str(), before.handle, before.parent), ("tbf", 0x10000, Qdisc::ROOT));
        ns.run(|| {
            let sender = UdpSocket::bind("10.0.0.1:0").unwrap();
            for _ in 0..SENT {
                sender.send_to(&[0; 1000], "10.0.0.2:9").unwrap();
            }
        })
        .unwrap();
        let after = read();
        assert!(after.drops > 0 && after.backlog_packets > 0 && after.overlimits > 0, "{after:?}");
        let taken = after.sent_packets - before.sent_packets + u64::from(after.backlog_packets + after.drops);
        assert_eq!(taken, SENT, "{after:?}");
        assert_eq!(after.sent_bytes - before.sent_bytes, FRAME * (after.sent_packets - before.sent_packets));
        assert_eq!(u64::from(after.backlog_bytes), FRAME * u64::from(after.backlog_packets));
    }

    #[test]
    fn more_packets_than_32_bits_hold() {
        let stats = [
            attribute(TCA_STATS_BASIC, &[&9u64.to_ne_bytes()[..], &7u32.to_ne_bytes(), &[0; 4]].concat()),
            attribute(TCA_STATS_PKT64, &(7u64 + (1 << 32)).to_ne_bytes()),
        ];
        let message = [vec![0; TCMSG], attribute(TCA_STATS2, &stats.concat())].concat();
        assert_eq!(parse(&message).unwrap().sent_packets, 7 + (1 << 32));
    }

    proptest! {
        #[test]
        fn any_bytes_end(bytes in proptest::collection::vec(any::<u8>(), 0..100), inner: Vec<u8>) {
            parse(&bytes);
            parse(&[vec![0; TCMSG], attribute(TCA_STATS2, &attribute(TCA_STATS_QUEUE, &inner))].concat());
        }
    }
}
