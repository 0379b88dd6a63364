//! What a lane does for the answers of its destination: see `sessions`.

use std::io;
use std::time::Instant;

use super::batch::Origin;
use super::events::{Events, Token};
use super::lane::Lane;
use super::reports::Heard;
use super::sender::Sender;
use super::sessions::Tally;
use super::turn::Turn;
use crate::ledger::Count;

impl Lane {
    /// Whether answers go back.
    pub(super) fn has_sessions(&self) -> bool {
        matches!(self.sender, Sender::Sessions(_))
    }

    /// Has epoll tell when there are answers, or no more.
    pub(super) fn watch_answers(&self, events: &Events, watch: Option<Token>) {
        let Sender::Sessions(sessions) = &self.sender else { return };
        match (sessions.descriptor(), watch) {
            (Some(descriptor), Some(token)) => events.watch_answers(descriptor, token),
            (Some(descriptor), None) => events.unwatch(descriptor),
            (None, _) => {}
        }
    }

    /// When a session has been silent for too long.
    pub(super) fn sessions_deadline(&self) -> Option<Instant> {
        match &self.sender {
            Sender::Sessions(sessions) => sessions.deadline(),
            _ => None,
        }
    }

    /// Closes sessions that have been silent for too long.
    pub(super) fn age_sessions(&mut self, now: Instant, _: &Turn<'_>) {
        if let Sender::Sessions(sessions) = &mut self.sender {
            sessions.age(now);
            self.count_sessions();
        }
    }

    /// Has answers go back: `back` sends one to a client. Reads what the network reported about sessions, too.
    pub(super) fn answer(&mut self, mut back: impl FnMut(Origin, &[u8]) -> io::Result<()>, _: &Turn<'_>) {
        let Self { sender: Sender::Sessions(sessions), reports, .. } = self else { return };
        let (mut received, mut returned, mut dropped) = (Count::default(), Count::default(), 0);
        let mut heard = Heard::default();
        let answered = |client: Origin, bytes: &[u8]| {
            let one = Count { datagrams: 1, bytes: bytes.len() as u64 };
            received += one;
            match back(client, bytes) {
                Ok(()) => returned += one,
                Err(_) => dropped += 1,
            }
        };
        sessions.answers(answered, |socket| heard.add(reports.hear(socket)));
        self.believe(heard);
        let replies = &self.count().replies;
        replies.received.add(received.datagrams);
        replies.received_bytes.add(received.bytes);
        replies.returned.add(returned.datagrams);
        replies.returned_bytes.add(returned.bytes);
        replies.dropped.add(dropped);
    }

    /// Closes all sessions, whose sender is about to be another one, or none.
    pub(super) fn close_sessions(&mut self) {
        if let Sender::Sessions(sessions) = &mut self.sender {
            sessions.close();
            self.count_sessions();
        }
    }

    /// Counts what has happened to sessions.
    pub(super) fn count_sessions(&mut self) {
        let Sender::Sessions(sessions) = &mut self.sender else { return };
        let Tally { opened, aged, evicted, failed, closed } = sessions.take_tally();
        let replies = &self.count().replies;
        replies.sessions.add(opened);
        replies.sessions.sub(aged + evicted + closed);
        replies.opened.add(opened);
        replies.aged.add(aged);
        replies.evicted.add(evicted);
        replies.failed.add(failed);
    }
}

impl Drop for Lane {
    /// Its destination may have been removed: there are none of its sessions any more.
    fn drop(&mut self) {
        self.close_sessions();
    }
}
