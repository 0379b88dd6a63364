//! What the room that protects is told: packets to protected addresses, each with what speaks against it.

use std::net::{IpAddr, SocketAddr};

use weir_detect::model::{Alive, Contested, Point, Sighting, Why, Word};
use weir_detect::queue::Outlet;
use weir_wire::sflow::FlowSample;

use super::Source;
use super::agrees::Agrees;
use crate::agents::{Agents, Identity, Nanos, Placed};
use crate::flows::Packet;

/// The shard's end of the queue, and what is known of the datagram at hand.
#[derive(Debug)]
pub(super) struct Protecting {
    outlet: Outlet,
    /// This shard, and how many there are.
    shard: (u32, u32),
    at: At,
}

/// Whose the datagram at hand is.
#[derive(Clone, Copy, Debug)]
enum At {
    Unlisted,
    Rival,
    Listed { stream: u32, exposure: Option<u64>, word: Word },
}

impl Protecting {
    pub(super) fn new(outlet: Outlet, shard: (u32, u32)) -> Self {
        Self { outlet, shard, at: At::Unlisted }
    }

    pub(super) fn outlet(&mut self) -> &mut Outlet {
        &mut self.outlet
    }

    /// Whether the list names an agent that speaks from there.
    pub(super) fn names(&self, agent: IpAddr, peer: SocketAddr) -> bool {
        self.outlet.names(agent, peer.ip().to_canonical())
    }

    /// A datagram came that is analysed.
    pub(super) fn placed(&mut self, who: Identity, peer: IpAddr, placed: &Placed, agents: &mut Agents<Source>) {
        self.at = At::Unlisted;
        if !self.outlet.is_listed(who.address, peer.to_canonical()) {
            return;
        }
        let Some((judged, exposure)) = agents.judge(placed, self.outlet.settle()) else { return };
        let (time, agent) = (placed.moment.now, who.address);
        if let Some(why) = judged.why {
            self.outlet.contested(Contested { time, agent, point: None, why });
        }
        if judged.alive {
            self.outlet.alive(Alive { time, agent });
        }
        // A number that no stream of another shard has.
        let stream = placed.stream.0.wrapping_mul(self.shard.1).wrapping_add(self.shard.0);
        self.at = judged.word.map_or(At::Rival, |word| At::Listed { stream, exposure, word });
    }

    /// A packet was sampled, on its way into an interface or out of it, which has these counters.
    #[inline]
    pub(super) fn packet(
        &mut self,
        (time, agent): (Nanos, IpAddr),
        sample: &FlowSample<'_>,
        packet: &Packet<'_>,
        frames: f64,
        ingress: Option<bool>,
        counted: Option<&mut Agrees>,
    ) {
        let Some(sighted) = packet.sighted(|address| self.outlet.protects(address)) else { return };
        let (stream, exposure, word) = match self.at {
            At::Unlisted => return self.outlet.unlisted(),
            At::Rival => return self.outlet.rival(),
            At::Listed { stream, exposure, word } => (stream, exposure, word),
        };
        let point = Point { agent, index: sample.source.index };
        let word = word.max(match counted.filter(|counted| counted.is_counted(time)) {
            None => Word::Uncounted,
            Some(counted) => {
                let due = [Why::Counters, Why::Short].into_iter().zip(counted.due(time, self.outlet.settle()));
                for (why, _) in due.filter(|(_, is_due)| *is_due) {
                    self.outlet.contested(Contested { time, agent, point: Some(point), why });
                }
                // Of samples that tell of less a flood is at least as large.
                if counted.differs(time)[0] { Word::Counters } else { Word::Good }
            }
        });
        let header = packet.first_bytes();
        self.outlet.sample(&Sighting { time, stream, exposure, word, point, ingress, frames, packet: sighted, header });
    }
}
