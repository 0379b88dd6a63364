//! What the room that protects is told: packets to protected addresses, each with what speaks against it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use weir_protect::model::{Alive, Point, Sighting, Word};
use weir_protect::room::Outlet;
use weir_wire::sflow::{DataSource, FlowSample, Interface};

use super::exposure::Exposure;
use crate::agents::{Identity, SECOND};
use crate::flows::Packet;

/// The shard's end of the queue, and what is known of listed streams.
#[derive(Debug)]
pub(super) struct Protecting {
    outlet: Outlet,
    streams: HashMap<(Identity, SocketAddr), Known>,
    /// Of the datagram at hand; `None`: its agent is not listed.
    at: Option<At>,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    stream: u32,
    since: u64,
    alive: u64,
    exposure: Exposure,
}

#[derive(Clone, Copy, Debug)]
struct At {
    stream: u32,
    exposure: Option<u64>,
    word: Word,
}

impl Protecting {
    pub(super) fn new(outlet: Outlet) -> Self {
        Self { outlet, streams: HashMap::new(), at: None }
    }

    pub(super) fn outlet(&mut self) -> &mut Outlet {
        &mut self.outlet
    }

    /// A datagram came that is analysed.
    pub(super) fn placed(&mut self, now: u64, who: Identity, peer: SocketAddr) {
        self.at = None;
        if !self.outlet.is_listed(who.address, peer.ip().to_canonical()) {
            return;
        }
        let stream = self.streams.len() as u32;
        let new = Known { stream, since: now, alive: 0, exposure: Exposure::default() };
        let known = self.streams.entry((who, peer)).or_insert(new);
        let is_new = now - known.since < self.outlet.settle();
        let word = if is_new { Word::New } else { Word::Good };
        self.at = Some(At { stream: known.stream, exposure: known.exposure.enter(now), word });
        if now >= known.alive + SECOND {
            known.alive = now;
            self.outlet.alive(Alive { time: now, agent: who.address });
        }
    }

    /// A packet was sampled.
    #[inline]
    pub(super) fn packet(
        &mut self,
        time: u64,
        agent: IpAddr,
        sample: &FlowSample<'_>,
        packet: &Packet<'_>,
        frames: f64,
    ) {
        let Some(sighted) = packet.sighted(|address| self.outlet.protects(address)) else { return };
        let Some(At { stream, exposure, word }) = self.at else { return self.outlet.unlisted() };
        let here = Interface::Index(sample.source.index);
        let ingress = match () {
            () if sample.source.class != DataSource::IF_INDEX => None,
            () if sample.input == here => Some(true),
            () if sample.output == here => Some(false),
            () => None,
        };
        let point = Point { agent, index: sample.source.index };
        let header = packet.first_bytes();
        self.outlet.sample(&Sighting { time, stream, exposure, word, point, ingress, frames, packet: sighted, header });
    }
}
