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
    /// TC_H_INGRESS: filters what is received (ingress, clsact).
    pub const INGRESS: u32 = 0xffff_fff1;
}

/// Reads the queueing disciplines of one namespace again and again.
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

/// `struct tcmsg` (family, index, handle, parent, info), TCA_KIND and TCA_STATS2 (include/uapi/linux/gen_stats.h).
fn parse(payload: &[u8]) -> Option<Qdisc> {
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
