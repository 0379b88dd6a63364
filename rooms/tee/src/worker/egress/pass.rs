//! The short way of a datagram that came alone, to a destination with nothing in its way: one send, straight from the
//! receive buffer. With datagrams in fragments, or far apart, this is most of what there is to do for them.

use super::Egress;
use crate::health::Gate;
use crate::worker::batch::Origin;
use crate::worker::join::Run;
use crate::worker::send::send_alone;
use crate::worker::turn::Turn;

impl Egress {
    /// Whether a datagram that comes now can leave at once, as it is.
    pub(in crate::worker) fn is_clear(&self) -> bool {
        self.backlog.is_empty()
            && !self.health.doubts_reports()
            && !self.source.is_headed()
            && self.sender.plain().is_some()
            && self.health.hop().gate == Gate::Open
    }

    /// Sends a datagram where the way [is clear](Self::is_clear). If the kernel does not take it, it waits.
    pub(in crate::worker) fn pass(&mut self, payload: &[u8], origin: Origin, turn: &mut Turn<'_>) {
        let Some(socket) = self.sender.plain() else { return };
        let statistics = send_alone(socket, payload, &mut turn.scratch.send);
        self.account(turn.scratch, statistics, |_, carried, count| {
            carried.taken.add(count as u64);
            payload.len() as u64
        });
        if statistics.blocked {
            let kept = self.backlog.push(Run { body: payload, ..Run::default() }, origin, self.limit);
            self.count_kept(kept.into(), (!kept).into());
        }
    }
}
