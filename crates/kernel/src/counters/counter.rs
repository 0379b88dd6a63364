//! Counters that tell of lost packets, each by a name of its own, and where its value stands.

use std::fmt;

use super::{Conntrack, LinkCounters, QueueStatistics, Softnet, Width};

/// A counter. What those of interfaces mean, and which may count the same, is in Documentation/networking/statistics.rst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    /// One of the protocols: table and name, as in /proc/net/snmp, netstat and snmp6.
    Snmp(&'static str, &'static str),
    /// Packets that came in and that driver or stack did not process, for whatever reason.
    RxDropped,
    /// Packets for which the card had no buffer.
    RxMissed,
    /// Overflows of the card's queue; with many drivers the same events as `RxMissed` or `RxOver`.
    RxFifo,
    /// Packets that did not fit the buffers that were there; with many drivers the same events as `RxFifo`.
    RxOver,
    /// Frames with a wrong checksum.
    RxCrc,
    /// Frames that do not end with a whole byte.
    RxFrame,
    /// Frames of an impossible length.
    RxLength,
    /// Packets on an interface that is not meant to receive (a bond's spare link).
    RxNoHandler,
    /// Packets that the interface did not take for sending.
    TxDropped,
    /// The same of a veth: its peer is down, or the backlog behind it is full, which counts them as well.
    TxDroppedVeth,
    /// Packets during which the link went away.
    TxCarrier,
    /// Packets in the middle of which the card ran out of data.
    TxFifo,
    /// Packets for which a card's queue had no buffer, where its driver tells queues apart.
    QueueOverruns,
    /// Failures to get memory for a card's queue, not all of which lose a packet.
    QueueAllocFail,
    /// Drops of an interface's outermost queueing discipline, which counts those of all within it.
    Qdisc,
    /// Packets that a processor's backlog did not take.
    SoftnetDropped,
    /// Times that a processor stopped with packets waiting. No loss.
    SoftnetSqueezed,
    /// Those of `SoftnetDropped` whose flow had more than its share of the backlog.
    SoftnetFlowLimited,
    /// Packets for which connection tracking had no room.
    ConntrackDrop,
    /// Packets of connections that connection tracking was just entering; older kernels count them as dropped, too.
    ConntrackInsertFailed,
    /// Packets that were too many to wait for the address of an IPv4 next hop.
    ArpDiscards,
    /// The same of IPv6.
    NdiscDiscards,
}

impl Counter {
    /// Whether it counts over all network namespaces.
    pub fn is_of_machine(self) -> bool {
        use Counter::{ArpDiscards, NdiscDiscards, SoftnetDropped, SoftnetFlowLimited, SoftnetSqueezed};
        matches!(self, SoftnetDropped | SoftnetFlowLimited | SoftnetSqueezed | ArpDiscards | NdiscDiscards)
    }

    /// Whether it is one of an interface.
    pub fn is_of_interface(self) -> bool {
        !self.is_of_machine() && !matches!(self, Self::Snmp(..) | Self::ConntrackDrop | Self::ConntrackInsertFailed)
    }

    /// Whether the card counted it, where the kernel had no buffer that could be traced.
    pub fn is_of_card(self) -> bool {
        use Counter::{QueueOverruns, RxCrc, RxFifo, RxFrame, RxLength, RxMissed, RxOver, TxCarrier, TxFifo};
        matches!(self, RxMissed | RxFifo | RxOver | QueueOverruns | RxCrc | RxFrame | RxLength | TxCarrier | TxFifo)
    }

    /// Where it wraps.
    pub fn width(self) -> Width {
        match self {
            Self::Qdisc | Self::ConntrackDrop | Self::ConntrackInsertFailed => Width::Bits32,
            counter if counter.is_of_machine() => Width::Bits32,
            _ => Width::Bits64,
        }
    }
}

impl LinkCounters {
    /// What its counters tell of losses.
    pub fn losses(&self) -> [(Counter, u64); 11] {
        let counted = &self.statistics;
        let is_veth = self.kind.as_deref() == Some("veth");
        [
            (Counter::RxDropped, counted.rx_dropped),
            (Counter::RxMissed, counted.rx_missed_errors),
            (Counter::RxFifo, counted.rx_fifo_errors),
            (Counter::RxOver, counted.rx_over_errors),
            (Counter::RxCrc, counted.rx_crc_errors),
            (Counter::RxFrame, counted.rx_frame_errors),
            (Counter::RxLength, counted.rx_length_errors),
            (Counter::RxNoHandler, counted.rx_nohandler),
            (if is_veth { Counter::TxDroppedVeth } else { Counter::TxDropped }, counted.tx_dropped),
            (Counter::TxCarrier, counted.tx_carrier_errors),
            (Counter::TxFifo, counted.tx_fifo_errors),
        ]
    }
}

impl QueueStatistics {
    /// What its counters tell of losses; `None`: its driver does not tell.
    pub fn losses(&self) -> [(Counter, Option<u64>); 2] {
        [(Counter::QueueOverruns, self.overruns), (Counter::QueueAllocFail, self.alloc_fail)]
    }
}

impl Softnet {
    /// What its counters tell of losses.
    pub fn losses(&self) -> [(Counter, u64); 3] {
        [
            (Counter::SoftnetDropped, self.dropped.into()),
            (Counter::SoftnetSqueezed, self.squeezed.into()),
            (Counter::SoftnetFlowLimited, self.flow_limited.unwrap_or(0).into()),
        ]
    }
}

impl Conntrack {
    /// What its counters tell of losses.
    pub fn losses(&self) -> [(Counter, u64); 2] {
        [(Counter::ConntrackDrop, self.drop), (Counter::ConntrackInsertFailed, self.insert_failed)]
    }
}

/// As the kernel names it, without the interface it is of.
impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Snmp(table, name) => return write!(f, "{table}.{name}"),
            Self::RxDropped => "rx_dropped",
            Self::RxMissed => "rx_missed",
            Self::RxFifo => "rx_fifo",
            Self::RxOver => "rx_over",
            Self::RxCrc => "rx_crc",
            Self::RxFrame => "rx_frame",
            Self::RxLength => "rx_length",
            Self::RxNoHandler => "rx_nohandler",
            Self::TxDropped | Self::TxDroppedVeth => "tx_dropped",
            Self::TxCarrier => "tx_carrier",
            Self::TxFifo => "tx_fifo",
            Self::QueueOverruns => "rx-hw-drop-overruns",
            Self::QueueAllocFail => "rx-alloc-fail",
            Self::Qdisc => "qdisc",
            Self::SoftnetDropped => "softnet.dropped",
            Self::SoftnetSqueezed => "softnet.squeezed",
            Self::SoftnetFlowLimited => "softnet.flow_limited",
            Self::ConntrackDrop => "conntrack.drop",
            Self::ConntrackInsertFailed => "conntrack.insert_failed",
            Self::ArpDiscards => "arp.unresolved_discards",
            Self::NdiscDiscards => "ndisc.unresolved_discards",
        })
    }
}
