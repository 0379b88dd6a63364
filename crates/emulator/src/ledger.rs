//! The ledger of one direction of a link: `received + duplicated = delivered + every named loss + in flight`.
//!
//! Every term has its own counter; none is derived from others.

use hdrhistogram::Histogram;

use crate::model::{Alterations, FlowDrops, Nanos};

/// Counters of one direction of one link since it was attached. Packets are IP packets as they would be on the wire: a
/// super-packet of n segments counts n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Packets taken from the ingress interface, control packets included.
    pub received: u64,
    /// Copies made by the duplication impairment.
    pub duplicated: u64,
    /// Packets handed to the egress interface, control packets and copies included.
    pub delivered: u64,
    /// Dropped by the loss impairment, as planned.
    pub lost: u64,
    /// Dropped because the emulated queue was full.
    pub queue_dropped: u64,
    /// Dropped because the emulator had no buffer left.
    pub buffer_dropped: u64,
    /// Refused by the egress interface.
    pub send_failed: u64,
    /// Frames the emulator cannot parse into packets and dropped.
    pub malformed: u64,
    /// Accepted and not yet released.
    pub in_flight: u64,

    /// Of `received`: ARP, ND, IGMP and MLD, which are delayed but never dropped.
    pub control: u64,
    /// Of `delivered`: altered packets, by kind; one may have several.
    pub altered: Alterations<u64>,
    /// Flows that found the flow table full and share one drop pattern.
    pub unlisted_flows: u64,

    /// Frames (a super-packet is one) taken from the ingress interface, to compare with the interface's own counter.
    pub frames_received: u64,
    /// Frames handed to the egress interface.
    pub frames_delivered: u64,
    /// Frames the kernel dropped because the emulator's socket buffer was full (`PACKET_STATISTICS`, tp_drops).
    pub socket_dropped_frames: u64,
    /// Frames still unread in the emulator's socket.
    pub unread_frames: u64,
    /// Bytes of `received`, from the IP header on.
    pub received_bytes: u64,
    /// Bytes of `delivered`, from the IP header on.
    pub delivered_bytes: u64,
}

impl Ledger {
    /// Packets that the ledger cannot account for; not 0: a bug in the emulator.
    pub fn unexplained(&self) -> i64 {
        let inflow = self.received + self.duplicated;
        let outflow = self.delivered
            + self.lost
            + self.queue_dropped
            + self.buffer_dropped
            + self.send_failed
            + self.malformed
            + self.in_flight;
        inflow as i64 - outflow as i64
    }
}

/// The report of one direction of a link.
#[derive(Clone, Debug)]
pub struct DirectionReport {
    /// The counters.
    pub ledger: Ledger,
    /// The planned drops, flow by flow.
    pub drops: Vec<FlowDrops>,
    /// Lateness of packets against the model, ns; one sample per send.
    pub lateness: Histogram<u64>,
    /// Times in which the emulator did not run in time, in order.
    pub late: Vec<Late>,
    /// Number of such times that are not listed.
    pub unlisted_late: u64,
}

/// A time in which a packet was overdue by [`Late::MIN`] or longer. Packets that wait at the same time are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Late {
    /// When the first packet was due, ns of CLOCK_MONOTONIC.
    pub due: Nanos,
    /// When the last of them left.
    pub left: Nanos,
}

impl Late {
    /// Min lateness that is listed, ns.
    pub const MIN: Nanos = 1_000_000;
}

/// Both directions of a link.
#[derive(Clone, Debug)]
pub struct LinkReport {
    /// From end a to end b.
    pub forward: DirectionReport,
    /// From end b to end a.
    pub backward: DirectionReport,
}
