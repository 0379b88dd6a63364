//! The counters of one link.

use weir_emulator::ledger::{Ledger, LinkReport};
use weir_kernel::counters::InterfaceCounters;

/// The counters of one link.
#[derive(Clone, Debug)]
pub struct LinkReading {
    /// Per end: the node's interface.
    pub nodes: [InterfaceCounters; 2],
    /// The emulator between them; `None`: a direct link.
    pub emulated: Option<LinkReport>,
}

impl LinkReading {
    /// Frames missing or extra between a node and the emulator by the interfaces' counters: both directions, both ends.
    /// On a direct link between its ends; the second joint is empty.
    pub fn joints(&self) -> [Joint; 4] {
        let [a, b] = &self.nodes;
        let Some(report) = &self.emulated else {
            let across =
                |from: &InterfaceCounters, to: &InterfaceCounters| Joint { before: from.sent, after: to.received };
            let far_joint = |to: &InterfaceCounters| Joint { before: to.received, after: to.received };
            return [across(a, b), far_joint(b), across(b, a), far_joint(a)];
        };
        let [forward, backward] = [&report.forward.ledger, &report.backward.ledger];
        let into = |node: &InterfaceCounters, ledger: &Ledger| Joint {
            before: node.sent,
            after: ledger.frames_received + ledger.socket_dropped_frames,
        };
        let out =
            |ledger: &Ledger, node: &InterfaceCounters| Joint { before: ledger.frames_delivered, after: node.received };
        [into(a, forward), out(forward, b), into(b, backward), out(backward, a)]
    }

    /// Frames that a node sent into this link (including those dropped on the way) and received from it, by end (0 or
    /// 1). Over all ends of a switch the two sums are equal; over those of a router too, except for its own answers.
    /// Control frames (ARP, ND, IGMP, MLD) are not counted: switches and routers create and consume them. On a direct
    /// link control is unknown and counts.
    pub fn throughput(&self, end: usize) -> (u64, u64) {
        let control = self.emulated.as_ref();
        let control = control.map_or([0, 0], |report| [report.forward.ledger.control, report.backward.ledger.control]);
        let node = &self.nodes[end];
        let sent = (node.sent + node.send_dropped).saturating_sub(control[end]);
        (sent, node.received.saturating_sub(control[1 - end]))
    }

    /// Whether nothing is in flight.
    pub(super) fn is_settled(&self) -> bool {
        let of = |report: &LinkReport| report.forward.ledger.in_flight + report.backward.ledger.in_flight;
        let in_flight = self.emulated.as_ref().map_or(0, of);
        in_flight == 0 && self.joints().iter().all(|joint| joint.remainder() == 0)
    }
}

/// Two counters of the same frames, in path order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joint {
    /// The earlier counter.
    pub before: u64,
    /// The later one.
    pub after: u64,
}

impl Joint {
    /// Frames missing after the joint; negative: more arrived than were sent.
    pub fn remainder(self) -> i64 {
        self.before as i64 - self.after as i64
    }
}
