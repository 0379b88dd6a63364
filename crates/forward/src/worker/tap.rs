//! Reading along: what else is done with what a worker receives.

use weir_dgram::{Inbox, Received};

/// Reads every datagram that one worker has received, on the worker's thread, after it was handed to the lanes: however
/// slow a destination is, a tap does not wait for it. All destinations wait for the tap.
pub trait Tap: Send {
    /// Reads a batch.
    fn read(&mut self, batch: Tapped<'_>);
}

/// A batch as a tap sees it.
#[derive(Clone, Copy)]
pub struct Tapped<'a> {
    inbox: &'a Inbox,
    worker: usize,
}

impl<'a> Tapped<'a> {
    pub(super) fn new(inbox: &'a Inbox, worker: usize) -> Self {
        Self { inbox, worker }
    }

    /// Its datagrams, or runs of them (none where [`Settings::steering`](crate::settings::Settings::steering) is set). Those that
    /// a listener counts as truncated are left out.
    pub fn messages(&self) -> impl Iterator<Item = Received<'a>> + use<'a> {
        let worker = self.worker;
        // What goes to all comes to every worker, see `sockets`: it is the first one's.
        self.inbox.messages().filter(move |message| !(message.truncated || message.to_all && worker > 0))
    }
}

impl std::fmt::Debug for Tapped<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tapped").field("messages", &self.inbox.len()).finish_non_exhaustive()
    }
}
