//! What a server would not take of what comes, by its own judgement.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_wire::signal::{Block, Channel, MOST_BYTES_V4};

use crate::receive::{self, Bounds, Moment, News, Sessions, Sink, Stream, Witness};
use crate::seal::{Opened, Opener, Refused};

/// A receiver without sockets, that keeps nothing.
#[derive(Debug)]
pub(super) struct Judge {
    opener: Opener,
    /// Whether there are keys: without one, what is sealed is a signal, too.
    has_keys: bool,
    sessions: Sessions,
    scratch: Vec<u8>,
    began: Instant,
}

impl Judge {
    pub(super) fn new(opener: Opener, has_keys: bool) -> Self {
        let sessions = Sessions::new(Bounds::default());
        Self { opener, has_keys, sessions, scratch: Vec::new(), began: Instant::now() }
    }

    /// Why it would not be taken, as a server's ledger calls it; `None`: it would be.
    pub(super) fn judge(&mut self, bytes: &[u8], source: SocketAddr) -> Option<&'static str> {
        if bytes.len() > MOST_BYTES_V4 {
            return Some("long");
        }
        let moment = self.moment();
        match self.opener.open(bytes, &mut self.scratch) {
            Ok(Opened { bytes, is_fresh }) => {
                self.sessions.take_opened(bytes, (source, is_fresh), moment, &mut Nobody, &mut Nobody)
            }
            Err(Refused::NoKey | Refused::NoSender) if !self.has_keys => None,
            Err(refused) => Some(receive::reason(refused)),
        }
    }

    /// What time alone brings.
    pub(super) fn look(&mut self) {
        self.sessions.look(self.moment(), &mut Nobody, &mut Nobody);
    }

    fn moment(&self) -> Moment {
        Moment { now: self.began.elapsed(), ..Moment::default() }
    }
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
