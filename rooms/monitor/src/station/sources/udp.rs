//! Datagrams that others send.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Result;
use weir_dgram::{Inbox, Membership, Options, Socket};

use super::points::Points;
use super::{Next, Source};
use crate::station::board::Board;
use crate::station::ledger::SourceCount;
use crate::station::readers::Format;
use crate::station::settings::{Feed, Source as Settings};
use weir_signal::receive::dropped_since;

/// A bound socket, and its reader.
pub(super) struct Udp {
    socket: Socket,
    inbox: Inbox,
    points: Points,
    format: Format,
    /// Datagrams that the socket dropped, as it last told.
    drops: u32,
}

impl Udp {
    pub(super) fn bind(number: usize, settings: &Settings, listen: SocketAddr, feed: &Feed) -> Result<Self> {
        let group = listen.ip();
        let options = Options {
            reuse_address: group.is_multicast(),
            receive_buffer: Some(RECEIVE_BUFFER),
            count_drops: true,
            ..Options::default()
        };
        let socket = Socket::bind(listen, &options)?;
        if group.is_multicast() {
            socket.join(&Membership { group, source: None, interface: None })?;
        }
        let (inbox, points) = (Inbox::new(BATCH, 65_535), Points::new(number, settings, feed));
        Ok(Self { socket, inbox, points, format: feed.format.clone(), drops: 0 })
    }
}

impl Source for Udp {
    fn take(&mut self, board: &mut Board) -> Result<Next> {
        for _ in 0..BATCHES {
            if self.inbox.receive(&self.socket).is_err() {
                break;
            }
            for message in self.inbox.messages() {
                self.points.count.datagrams += 1;
                if let Some(drops) = message.socket_drops {
                    self.points.count.dropped += dropped_since(&mut self.drops, drops);
                }
                let mut most = u64::MAX;
                let taken = self.points.read(&mut self.format, message.bytes, true, &mut most, board);
                self.points.count.unreadable += u64::from(taken < message.bytes.len());
            }
        }
        Ok(self.points.show_states(&mut self.format, board).map_or(Next::Readable, Next::At))
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn count(&self) -> SourceCount {
        let mut count = self.points.count.clone();
        // Of those behind the last datagram none has told yet; the next one tells of them as well, so that they are not kept.
        if let Ok(memory) = self.socket.memory() {
            count.dropped += dropped_since(&mut { self.drops }, memory.drops);
        }
        count
    }
}

const RECEIVE_BUFFER: usize = 8 << 20;
const BATCH: usize = 32;

/// Then it is the turn of others.
const BATCHES: usize = 8;
