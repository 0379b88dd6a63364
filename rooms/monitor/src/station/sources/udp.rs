//! Datagrams of values that others send: Influx line protocol, JSON, StatsD.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::Result;
use weir_dgram::{Inbox, Membership, Options, Socket};

use super::points::Points;
use super::{Next, Source};
use crate::receive::dropped_since;
use crate::station::board::Board;
use crate::station::ledger::SourceCount;
use crate::station::readers::{Statsd, influx, json};
use crate::station::settings::{Format, Source as Settings};

/// A bound socket, and its reader.
pub(super) struct Feed {
    socket: Socket,
    inbox: Inbox,
    points: Points,
    format: Format,
    statsd: Statsd,
    name: String,
    /// Datagrams that the socket dropped, as it last told.
    drops: u32,
}

impl Feed {
    pub(super) fn bind(number: usize, settings: &Settings, listen: SocketAddr, format: Format) -> Result<Self> {
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
        Ok(Self {
            socket,
            inbox: Inbox::new(BATCH, 65_535),
            points: Points::new(number, settings),
            format,
            statsd: Statsd::default(),
            name: String::new(),
            drops: 0,
        })
    }
}

impl Source for Feed {
    fn take(&mut self, board: &mut Board) -> Result<Next> {
        for _ in 0..BATCHES {
            if self.inbox.receive(&self.socket).is_err() {
                break;
            }
            for message in self.inbox.messages() {
                let (points, name, statsd) = (&mut self.points, &mut self.name, &mut self.statsd);
                points.count.datagrams += 1;
                if let Some(drops) = message.socket_drops {
                    points.count.dropped += dropped_since(&mut self.drops, drops);
                }
                let text = String::from_utf8_lossy(message.bytes);
                if self.format == Format::Json {
                    let read = json(&text, name, |name, time, value| points.place(board, name, time, value));
                    points.count.unreadable += u64::from(read.is_err());
                    continue;
                }
                for line in text.lines() {
                    let mut look = |name: &str, time, value| points.place(board, name, time, value);
                    let read = match self.format {
                        Format::Statsd => statsd.line(line, &mut look),
                        _ => influx(line, name, &mut look),
                    };
                    points.count.unreadable += u64::from(read.is_err());
                }
            }
        }
        Ok(Next::Readable)
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
