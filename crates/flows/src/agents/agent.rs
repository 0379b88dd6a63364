//! An identity, and the streams behind it.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

use super::sequence::{Ledger, Step};
use super::stream::{SILENCE, Stream, StreamId, Told};
use super::{Identity, Nanos};

/// Datagrams after which an agent is no newcomer.
const PROVEN: u64 = 8;

/// Who sends: an agent address and a sub-agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Agent {
    /// Who.
    pub identity: Identity,
    /// When it was first heard.
    pub since: Nanos,
    /// When it was last heard.
    pub heard: Nanos,
    pub(super) streams: Vec<Stream>,
    /// Of streams that are gone.
    past: AgentLedger,
}

/// What came from an agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentLedger {
    /// All that came.
    pub datagrams: u64,
    /// What came of the streams.
    pub sequence: Ledger,
    /// Restarts of the agent.
    pub restarts: u64,
}

/// Where a datagram belongs: the stream at this index, and what its number says.
pub(super) struct Place {
    pub(super) index: usize,
    pub(super) step: Step,
    /// The stream that had to go for it.
    pub(super) gone: Option<Stream>,
}

impl Agent {
    pub(super) fn new(identity: Identity, now: Nanos) -> Self {
        Self { identity, since: now, heard: now, streams: Vec::with_capacity(1), past: AgentLedger::default() }
    }

    /// The streams that are followed now.
    pub fn streams(&self) -> &[Stream] {
        &self.streams
    }

    /// Addresses that its streams come from.
    pub fn peers(&self) -> Vec<IpAddr> {
        let mut peers: Vec<IpAddr> = self.streams.iter().map(|stream| stream.peer.ip()).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }

    /// Whether it has sent more than a few datagrams.
    pub fn is_proven(&self) -> bool {
        self.past.datagrams >= PROVEN
    }

    /// What came, of streams past and present.
    pub fn ledger(&self) -> AgentLedger {
        let mut ledger = self.past;
        self.streams.iter().for_each(|stream| ledger.take(stream));
        ledger
    }

    /// How many data sources its streams have.
    pub(super) fn sources(&self) -> usize {
        self.streams.iter().map(|stream| stream.sources.len()).sum()
    }

    /// Takes a datagram to its stream, which is begun if there are fewer than `most`; `None`: there are not.
    #[inline]
    pub(super) fn place(
        &mut self,
        now: Nanos,
        peer: SocketAddr,
        told: &Told,
        most: usize,
        next: &mut u32,
    ) -> Option<Place> {
        let known = self.streams.iter().position(|stream| stream.peer == peer);
        let Some(index) = known.or_else(|| self.moved(now, peer, told)) else {
            return self.open(now, Stream::new(StreamId(*next), peer, now, told), most, next);
        };
        (self.heard, self.past.datagrams) = (now, self.past.datagrams + 1);
        let step = self.streams[index].advance(now, told);
        Some(Place { index, step, gone: None })
    }

    /// The stream that goes on from there.
    #[cold]
    fn moved(&mut self, now: Nanos, peer: SocketAddr, told: &Told) -> Option<usize> {
        let index = self.streams.iter().position(|stream| stream.goes_on(now, told))?;
        self.streams[index].go_to(peer, now);
        Some(index)
    }

    /// Begins a stream. Where there is no room, the one that has been silent for longest goes if it may be over.
    #[cold]
    fn open(&mut self, now: Nanos, stream: Stream, most: usize, next: &mut u32) -> Option<Place> {
        let mut gone = None;
        if self.streams.len() >= most {
            let (index, oldest) = self.streams.iter().enumerate().min_by_key(|(_, stream)| stream.heard())?;
            if now <= oldest.heard() + SILENCE {
                return None;
            }
            gone = Some(self.drop_stream(index));
        }
        *next += 1;
        (self.heard, self.past.datagrams) = (now, self.past.datagrams + 1);
        self.streams.push(stream);
        Some(Place { index: self.streams.len() - 1, step: Step::First, gone })
    }

    fn drop_stream(&mut self, index: usize) -> Stream {
        let gone = self.streams.remove(index);
        self.past.take(&gone);
        gone
    }

    /// Gives up streams that have been silent for so long, all but one; returns one of them.
    pub(super) fn forget(&mut self, now: Nanos, silence: Nanos) -> Option<Stream> {
        let old = |stream: &Stream| now.saturating_sub(stream.heard()) > silence;
        let index = (self.streams.len() > 1).then(|| self.streams.iter().position(old))??;
        Some(self.drop_stream(index))
    }
}

impl AgentLedger {
    fn take(&mut self, stream: &Stream) {
        self.sequence.add(stream.ledger());
        self.restarts += stream.restarts;
    }
}
