//! The bytes of messages.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;

use weir_program::clock::{self, Nanos, now};
use weir_wire::probe::{BASE_LEN, EXTENDED_LEN, Extension, Kind, Probe};

use crate::SenderSettings;

/// The bytes of a batch of messages, stamped again for each batch.
pub(super) struct Messages {
    probe: Probe,
    /// The header fields that stay the same.
    extension: Extension,
    bytes: Vec<u8>,
    length: usize,
}

/// Messages of equal length, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch<'a> {
    /// All their bytes.
    pub(super) bytes: &'a [u8],
    /// Bytes per message.
    pub(super) length: usize,
}

impl Messages {
    pub(super) fn new(settings: &SenderSettings) -> Self {
        let length = settings.payload_bytes.max(BASE_LEN);
        let extension = Extension {
            intended: 0,
            clock: clock::id().map_or(0, NonZeroU32::get),
            incarnation: if length >= EXTENDED_LEN { random() } else { 0 },
            length: length.try_into().unwrap_or(u32::MAX),
        };
        let probe = Probe {
            kind: Kind::Message,
            session: settings.session,
            sequence: 0,
            sent: 0,
            extension: (length >= EXTENDED_LEN).then_some(extension),
        };
        let max = settings.batch.map_or(MAX_BATCH_MESSAGES, |batch| batch.get().min(MAX_BATCH_MESSAGES));
        let room = if settings.in_batches() { (BATCH_BYTES / length).clamp(1, max) } else { 1 };
        Self { probe, extension, bytes: vec![0; room * length], length }
    }

    /// Bytes of a message.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Identifies this run of the sender. 0: nothing does.
    pub(super) fn incarnation(&self) -> u32 {
        self.extension.incarnation
    }

    /// Max messages of a batch.
    pub(super) fn room(&self) -> usize {
        self.bytes.len() / self.length
    }

    /// Writes the number and times of the message at `place` of a batch.
    pub(super) fn stamp(&mut self, place: usize, number: u64, intended: Nanos, sent: Nanos) {
        self.probe.sequence = number as u32;
        self.probe.sent = sent;
        if let Some(extension) = &mut self.probe.extension {
            extension.intended = intended;
        }
        // The buffer always has room for the header.
        let _ = self.probe.write(&mut self.bytes[place * self.length..][..self.length]);
    }

    /// The message at the first place.
    pub(super) fn first(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// The messages at the first `count` places.
    pub(super) fn batch(&self, count: usize) -> Batch<'_> {
        Batch { bytes: &self.bytes[..count * self.length], length: self.length }
    }

    /// The announcement after the last message.
    pub(super) fn end(&self, sent: u64) -> [u8; EXTENDED_LEN] {
        let at = now();
        let extension = Some(Extension { intended: at, length: EXTENDED_LEN as u32, ..self.extension });
        let probe = Probe { kind: Kind::End, sequence: sent as u32, sent: at, extension, ..self.probe };
        let mut bytes = [0; EXTENDED_LEN];
        let _ = probe.write(&mut bytes);
        bytes
    }
}

/// Identifies this run of a sender; not 0.
fn random() -> u32 {
    (RandomState::new().hash_one(now()) as u32).max(1)
}

/// Max bytes of a batch: it stays in the CPU's cache from stamping to sending.
const BATCH_BYTES: usize = 256 * 1024;

/// Max messages of a batch: a longer one would delay those that become due meanwhile.
const MAX_BATCH_MESSAGES: usize = 512;
