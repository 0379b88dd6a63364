//! What one client is sent of one channel, from its own cursor on.

use weir_wire::signal::{Block, Header, Packer};

use crate::api::rows::until;
use weir_signal::history::{Cursor, History, MOST_READ};
use weir_signal::thin::BlockThinner;

/// One client's part of a channel.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) key: u16,
    pub(super) thinner: BlockThinner,
    pub(super) cursor: Cursor,
    /// Index at which it ends; `None`: it follows.
    pub(super) until: Option<u64>,
    /// Whether all that there was when it began has been sent.
    pub(super) whole: bool,
}

/// A binary message: a datagram of data that may be long.
#[derive(Debug)]
pub(super) struct Message {
    packer: Packer,
    /// Bytes of values about.
    length: usize,
    /// Index of the first that had no room.
    overflow: Option<u64>,
}

impl Feed {
    /// Puts what there is into a message until it is full, and says whether there may be more. `budget`: bytes of the history that may
    /// still be looked at in this go.
    pub(super) fn pull(&mut self, history: &History, message: &mut Message, budget: &mut usize) -> bool {
        let Self { key, thinner, cursor, .. } = self;
        let end = self.until.unwrap_or(u64::MAX);
        let mut more = true;
        while more && message.length < FULL && *budget > 0 && message.overflow.is_none() {
            let mut look = |block: Block<'_>| {
                *budget = budget.saturating_sub(block.values.bytes().len() + 64);
                thinner.push(&until(Block { channel: *key, ..block }, end), |block| message.add(&block));
            };
            more = cursor.at < end
                && history.read(cursor, |block| {
                    if block.first < end {
                        look(block);
                    }
                });
        }
        if !more {
            // What is open is shown as well: the rest of its bucket follows as another part.
            thinner.flush(|block| message.add(&block));
        }
        let Some(at) = message.overflow.take() else { return more };
        // The rest is for the next message, read anew.
        (self.thinner, self.cursor.at) = (BlockThinner::new(self.thinner.bucket()), at);
        true
    }
}

impl Message {
    pub(super) fn new() -> Self {
        Self { packer: Packer::new(MOST_BYTES), length: 0, overflow: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packer.is_empty()
    }

    /// Its bytes; the next begins.
    pub(super) fn finish(&mut self, header: Header) -> Vec<u8> {
        let bytes = self.packer.finish(header).to_vec();
        self.packer.clear();
        self.length = 0;
        bytes
    }

    fn add(&mut self, block: &Block<'_>) {
        self.length += block.values.bytes().len() + 64;
        if self.overflow.is_none() && !self.packer.copy(block) {
            self.overflow = Some(block.first);
        }
    }
}

/// Bytes after which a message is full.
const FULL: usize = 192 << 10;

/// Bytes of the longest message: what is read at once comes on top, mostly; many short blocks do not fit, and wait for the next.
const MOST_BYTES: usize = FULL + 16 * MOST_READ;
