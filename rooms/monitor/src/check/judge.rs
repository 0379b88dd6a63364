//! What a server would make of what each source sends: what it would refuse, and which datagrams of data are missing.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use weir_wire::signal::{Block, Channel, Flags, Header, Kind, MOST_BYTES_V4};

use super::Facts;
use weir_signal::receive::{self, Bounds, Moment, News, Sessions, Sink, Stream, Witness};
use weir_signal::seal::{Opened, Opener, Refused};

/// A receiver for each source, without sockets, that keeps nothing.
#[derive(Debug)]
pub(super) struct Judge {
    opener: Opener,
    /// Whether there are keys: without one, what is sealed is a signal, too.
    has_keys: bool,
    sources: BTreeMap<String, Sessions>,
    scratch: Vec<u8>,
}

impl Judge {
    pub(super) fn new(opener: Opener, has_keys: bool) -> Self {
        Self { opener, has_keys, sources: BTreeMap::new(), scratch: Vec::new() }
    }

    /// Why a datagram would be refused, as a server's ledger calls it; `None`: it would be taken. `name`: of its source; `now`: since the
    /// beginning.
    pub(super) fn judge(
        &mut self,
        bytes: &[u8],
        (source, name): (SocketAddr, &str),
        now: Duration,
    ) -> Option<&'static str> {
        if bytes.len() > MOST_BYTES_V4 {
            return Some("long");
        }
        // Its number is in plain text: as data or a heartbeat of nothing it counts all the same.
        let header;
        let (bytes, is_fresh) = match self.opener.open(bytes, &mut self.scratch) {
            Ok(Opened { bytes, is_fresh }) => (bytes, is_fresh),
            Err(Refused::NoKey | Refused::NoSender) if !self.has_keys => match Header::parse(bytes) {
                Ok((sealed, _)) if matches!(sealed.kind, Kind::Data | Kind::Heartbeat) => {
                    header = Header { flags: Flags::default(), count: 0, ..sealed }.to_bytes();
                    (header.as_slice(), true)
                }
                _ => return None,
            },
            Err(refused) => return Some(receive::reason(refused)),
        };
        let sessions = self.sources.entry(name.to_owned()).or_insert_with(|| Sessions::new(Bounds::default()));
        sessions.take_opened(bytes, (source, is_fresh), at(now), &mut Nobody, &mut Nobody)
    }

    /// What time alone brings.
    pub(super) fn look(&mut self, now: Duration) {
        self.sources.values_mut().for_each(|sessions| sessions.look(at(now), &mut Nobody, &mut Nobody));
    }

    /// Forgets all that came so far.
    pub(super) fn clear(&mut self) {
        self.sources.clear();
    }

    /// Adds to each source what it has sent by its numbers, and what of that is missing.
    pub(super) fn account(&self, facts: &mut Facts) {
        for (name, sessions) in &self.sources {
            let counts = sessions.counts(0);
            let source = facts.sources.entry(name.clone()).or_default();
            (source.numbered, source.missing) = (counts.in_order + counts.lost, counts.lost);
        }
    }
}

fn at(now: Duration) -> Moment {
    Moment { now, ..Moment::default() }
}

/// Hears what a receiver finds, and does nothing with it.
struct Nobody;

impl Sink for Nobody {
    fn channel(&mut self, _: &Arc<Stream>, _: &Arc<Channel>) {}
    fn block(&mut self, _: &Arc<Stream>, _: &Block<'_>) {}
    fn stream(&mut self, _: &Arc<Stream>, _: News) {}
}

impl Witness for Nobody {
    fn host_dropped(&mut self, _: Duration) -> bool {
        false
    }
}
