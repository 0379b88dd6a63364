//! What the counters of one link say.

use weir_emulator::ledger::{Ledger, LinkReport};
use weir_kernel::counters::InterfaceCounters;

/// What the counters of one link say.
#[derive(Clone, Debug)]
pub struct LinkReading {
    /// Per end: the node's interface.
    pub nodes: [InterfaceCounters; 2],
    /// The emulator between them; `None`: a direct link.
    pub emulated: Option<LinkReport>,
}

impl LinkReading {
    /// Frames that went missing between a node and the emulator, or came from nowhere, by the interfaces' counters;
    /// both ways, both ends. Of a direct link between its ends, and the joint behind it is empty.
    pub fn joints(&self) -> [Joint; 4] {
        let [a, b] = &self.nodes;
        let Some(report) = &self.emulated else {
            let across =
                |from: &InterfaceCounters, to: &InterfaceCounters| Joint { before: from.sent, after: to.received };
            let behind = |to: &InterfaceCounters| Joint { before: to.received, after: to.received };
            return [across(a, b), behind(b), across(b, a), behind(a)];
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

    /// Frames that a node sent into this link (those dropped on the way included) and got out of it, by the end it is at (0 or
    /// 1). Over all ends of a switch both add up to the same; over those of a router, too, less what it answered itself. Control
    /// (ARP, ND, IGMP, MLD) is not counted: switches and routers ask, answer and swallow such frames themselves. Of a direct link
    /// control is not known and counts.
    pub fn throughput(&self, end: usize) -> (u64, u64) {
        let control = self.emulated.as_ref();
        let control = control.map_or([0, 0], |report| [report.forward.ledger.control, report.backward.ledger.control]);
        let node = &self.nodes[end];
        let sent = (node.sent + node.send_dropped).saturating_sub(control[end]);
        (sent, node.received.saturating_sub(control[1 - end]))
    }

    /// Whether nothing is on its way.
    pub(super) fn is_settled(&self) -> bool {
        let of = |report: &LinkReport| report.forward.ledger.in_flight + report.backward.ledger.in_flight;
        let in_flight = self.emulated.as_ref().map_or(0, of);
        in_flight == 0 && self.joints().iter().all(|joint| joint.remainder() == 0)
    }
}

/// Two counters of the same frames, in the order of their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joint {
    /// The earlier counter.
    pub before: u64,
    /// The later one.
    pub after: u64,
}

impl Joint {
    /// What is missing behind the joint; negative: more came than went.
    pub fn remainder(self) -> i64 {
        self.before as i64 - self.after as i64
    }
}
