//! What the network reports about what an egress has sent: see `reports`.

use std::time::Instant;

use super::Egress;
use crate::worker::reports::{Heard, LASTS};
use crate::worker::sender::Sender;

impl Egress {
    /// Whether what is sent is to be remembered, since something was reported, to whichever worker; if not, nothing is any more.
    pub(super) fn remembers(&mut self) -> bool {
        let remembers = self.health.doubts_reports();
        if !remembers && self.reports.has_memory() {
            self.reports.forget();
        }
        remembers
    }

    /// Reads what the network reported about earlier datagrams; at least `known` reports have come.
    pub(super) fn hear(&mut self, known: u64) {
        let mut heard = match &self.sender {
            Sender::Connected(socket) | Sender::Guarded(socket, _) => self.reports.hear(socket, Instant::now()),
            // Epoll tells which of them it is about, which may send no more: see `answer`.
            Sender::Sessions(_) | Sender::Raw(..) | Sender::None => return,
        };
        heard.reports = heard.reports.max(known);
        self.believe(heard);
    }

    /// Counts what was reported, and believes what is to be believed.
    pub(super) fn believe(&mut self, mut heard: Heard) {
        if heard == Heard::default() {
            return;
        }
        let now = Instant::now();
        if heard.doubts > 0 {
            self.health.doubt_reports(LASTS);
            self.reports.begin(now);
        }
        if heard.evidence.is_some() && self.reports.are_forged(self.health.earlier_strays(), now) {
            self.health.disbelieve();
            heard.unproven += heard.proven;
            heard.evidence = None;
        }
        if let Some(evidence) = heard.evidence {
            self.health.note(evidence);
        }
        self.count().change(|carried| {
            carried.icmp_errors.add(heard.reports);
            carried.icmp_unproven.add(heard.unproven);
        });
    }
}
