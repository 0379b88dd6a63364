//! What one client is sent of one channel, from its own index on.

use std::sync::Arc;

use weir_wire::signal::{Block, Form, Header, Packer, Values};

use crate::api::rows::{MOST_COPIED, until};
use crate::api::thinned::{Copied, Piece, Place, Thinning};
use weir_signal::history::{History, Listed};
use weir_signal::thin::Thinned;

/// One client's part of a channel.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) key: u16,
    pub(super) thinning: Thinning,
    /// Index to go on at.
    pub(super) at: u64,
    /// Index at which it ends; `None`: it follows.
    pub(super) until: Option<u64>,
    /// Whether all that there was when it began has been sent.
    pub(super) whole: bool,
}

/// A binary message: a datagram of data that may be long.
#[derive(Debug)]
pub(super) struct Message {
    packer: Packer,
    /// Buckets of one size that follow one another, not yet in the packer.
    run: Vec<(Place, Thinned)>,
    channel: u16,
    /// Bytes of values about.
    length: usize,
    copied: Copied,
    /// Index of the first that had no room.
    overflow: Option<u64>,
}

impl Feed {
    /// Puts what there is into a message until it is full, and says whether there may be more. `budget`: bytes of the history that may
    /// still be looked at in this go; `listed`: the channel as the client knows it.
    pub(super) fn pull(
        &mut self,
        history: &History,
        listed: &Arc<Listed>,
        message: &mut Message,
        budget: &mut usize,
    ) -> bool {
        message.channel = self.key;
        let end = self.until.unwrap_or(u64::MAX);
        let mut more = false;
        while self.at < end {
            if message.is_full() || *budget == 0 {
                more = true;
                break;
            }
            let mut copied = std::mem::take(&mut message.copied);
            copied.clear();
            let next = history.read(listed.id(), self.at, MOST_COPIED, |block| copied.keep(&block));
            for block in copied.blocks(self.key).filter(|block| block.first < end) {
                self.thinning.push(until(block, end), |piece| message.add(piece));
            }
            *budget = budget.saturating_sub(copied.bytes() + 64);
            message.copied = copied;
            if message.overflow.is_some() {
                more = true;
                break;
            }
            if next <= self.at {
                break;
            }
            self.at = next.min(end);
        }
        if !more {
            // What is open is shown as well: the rest of its bucket follows as another part.
            self.thinning.flush(&mut |piece| message.add(piece));
        }
        message.close_run();
        let Some(at) = message.overflow.take() else { return more };
        // The rest is for the next message, read anew.
        self.thinning = Thinning::new(self.thinning.bucket());
        self.at = at;
        true
    }
}

impl Message {
    pub(super) fn new() -> Self {
        Self {
            packer: Packer::new(MOST_BYTES),
            run: Vec::new(),
            channel: 0,
            length: 0,
            copied: Copied::default(),
            overflow: None,
        }
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

    fn is_full(&self) -> bool {
        self.length >= FULL
    }

    fn add(&mut self, piece: Piece<'_>) {
        match piece {
            _ if self.overflow.is_some() => {}
            Piece::Block(block) => {
                self.close_run();
                if self.overflow.is_none() {
                    self.copy(block);
                }
            }
            Piece::Bucket(place, thinned) => {
                let goes_on = self.run.last().is_some_and(|(before, last)| {
                    last.samples == thinned.samples
                        && last.end() == thinned.first
                        && before.rate == place.rate
                        && before.element == place.element
                        && self.run.len() < usize::from(u16::MAX)
                });
                if !goes_on {
                    self.close_run();
                }
                self.length += Form::Buckets(1).size(place.element);
                self.run.push((place, thinned));
            }
        }
    }

    /// A block as it is.
    fn copy(&mut self, block: Block<'_>) {
        self.length += 64
            + match block.values {
                Values::Samples(_, values) | Values::Buckets(_, _, values) => values.len(),
                Values::Gap(_) => 0,
            };
        if !self.packer.copy(&block) {
            self.overflow = Some(block.first);
        }
    }

    fn close_run(&mut self) {
        let Some(&(place, first)) = self.run.first() else { return };
        let form = Form::Buckets(first.samples);
        self.length += 64;
        if self.packer.room(place.element, form) < self.run.len() {
            self.overflow = Some(first.first);
            self.run.clear();
            return;
        }
        // A run has no more than 65,535.
        let count = self.run.len() as u16;
        let position = (self.channel, first.first, place.time);
        let bytes = self.packer.block(position, place.rate, (place.element, form), count);
        for (_, thinned) in self.run.drain(..) {
            let bucket = thinned.bucket;
            for value in [bucket.least, bucket.greatest, bucket.first, bucket.last] {
                place.element.write(value, bytes);
            }
        }
    }
}

/// Bytes after which a message is full.
const FULL: usize = 192 << 10;

/// Bytes of the longest message: what is read at once comes on top, mostly; many short blocks do not fit, and wait for the next.
const MOST_BYTES: usize = FULL + 16 * MOST_COPIED;
