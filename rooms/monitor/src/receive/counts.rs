//! What became of each datagram and of each sample.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_wire::signal::{Cause, Kind, Malformed};

use crate::seal;

/// Everything that a receiver has counted. It closes: `datagrams` = the sum of `by_kind` and `refused`; data = `in_order` + `copies` +
/// `late` + `waiting` + `forgotten`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Datagrams that came.
    pub datagrams: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Datagrams of each kind.
    pub by_kind: BTreeMap<&'static str, u64>,
    /// Datagrams that were not taken, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Data, handed out in its order.
    pub in_order: u64,
    /// Data that was here already: the other of two groups, or a copy made on the way.
    pub copies: u64,
    /// Data that came after it had been given up, or was sent before the first that came.
    pub late: u64,
    /// Data that waits for what is before it.
    pub waiting: u64,
    /// Data that waited in a session when that was forgotten.
    pub forgotten: u64,
    /// Datagrams of data that did not come.
    pub lost: u64,
    /// Samples handed out; a bucket is as many as it stands for.
    pub samples: u64,
    /// Samples that were here before: a sender counts backwards.
    pub repeated: u64,
    /// Blocks of channels beyond those that a session may have.
    pub beyond: u64,
    /// Samples that are missing, by cause.
    pub missing: BTreeMap<&'static str, u64>,
    /// Of those, samples that their sender itself told as missing: lost before it (of what a server sends on: in front of that server, or
    /// in it), and not on the way from there.
    pub missing_told: u64,
    /// Samples that channels which a server derives lack, as it says itself, since their inputs do: no loss on the way from there.
    pub inherited: u64,
    /// Sessions that are known.
    pub sessions: usize,
    /// Sessions forgotten to make room.
    pub evicted: u64,
    /// Channels without metadata within a second: called by their numbers.
    pub unnamed: u64,
    /// Requests for metadata sent.
    pub requests: u64,
    /// Datagrams that this machine's sockets dropped: their buffers were full.
    pub socket_drops: u64,
}

/// The same while it is counted: nothing is looked up by name.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
    kinds: [u64; KINDS.len()],
    refused: [u64; REFUSED.len()],
    pub(super) in_order: u64,
    pub(super) copies: u64,
    pub(super) late: u64,
    /// Data that waits now, in all sessions.
    pub(super) waiting: u64,
    /// Bytes of blocks that wait for a name now, in all sessions.
    pub(super) queued: usize,
    pub(super) forgotten: u64,
    pub(super) lost: u64,
    pub(super) samples: u64,
    pub(super) repeated: u64,
    pub(super) beyond: u64,
    missing: [u64; Cause::ALL.len()],
    missing_told: u64,
    pub(super) inherited: u64,
    pub(super) evicted: u64,
    pub(super) unnamed: u64,
    pub(super) requests: u64,
}

/// Why a datagram is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Malformed(Malformed),
    /// Its number, or an index in it, is far beyond what a sender reaches.
    Absurd,
    /// From an address that has sent no data of its session.
    Stranger,
    /// All sessions that there is room for are alive.
    Sessions,
    /// A channel beyond those that a session may have.
    Channels,
    /// Longer than any datagram of this format.
    Long,
    /// It is not sealed as the keys demand.
    Seal(seal::Refused),
}

impl Tally {
    pub(super) fn kind(&mut self, kind: Kind) {
        self.kinds[kind as usize] += 1;
    }

    pub(super) fn refuse(&mut self, refused: Refused) {
        self.refused[refused.place()] += 1;
    }

    pub(super) fn miss(&mut self, cause: Cause, samples: u64) {
        self.missing[cause as usize] = self.missing[cause as usize].saturating_add(samples);
    }

    /// The sender says that it lacks them.
    pub(super) fn miss_told(&mut self, cause: Cause, samples: u64) {
        self.miss(cause, samples);
        self.missing_told = self.missing_told.saturating_add(samples);
    }

    /// By name.
    pub(super) fn counts(&self, sessions: usize, socket_drops: u64) -> Counts {
        let named =
            |names: &[&'static str], counts: &[u64]| names.iter().copied().zip(counts.iter().copied()).collect();
        Counts {
            datagrams: self.datagrams,
            bytes: self.bytes,
            by_kind: named(&KINDS, &self.kinds),
            refused: named(&REFUSED, &self.refused),
            in_order: self.in_order,
            copies: self.copies,
            late: self.late,
            waiting: self.waiting,
            forgotten: self.forgotten,
            lost: self.lost,
            samples: self.samples,
            repeated: self.repeated,
            beyond: self.beyond,
            missing: named(&Cause::ALL.map(Cause::name), &self.missing),
            missing_told: self.missing_told,
            inherited: self.inherited,
            sessions,
            evicted: self.evicted,
            unnamed: self.unnamed,
            requests: self.requests,
            socket_drops,
        }
    }
}

impl Counts {
    /// What its terms leave over: 0.
    pub fn unexplained(&self) -> i64 {
        let kinds = self.by_kind.values().chain(self.refused.values()).sum::<u64>();
        let data = self.by_kind.get(KINDS[0]).copied().unwrap_or(0);
        let fates = self.in_order + self.copies + self.late + self.waiting + self.forgotten;
        (self.datagrams.wrapping_sub(kinds) as i64).abs() + (data.wrapping_sub(fates) as i64).abs()
    }
}

/// Why what is sealed otherwise than the keys demand, or cannot be read, is not taken, as the ledger calls it.
pub(crate) fn reason(refused: seal::Refused) -> &'static str {
    Refused::Seal(refused).name()
}

impl Refused {
    /// As the ledger calls it.
    pub(super) fn name(self) -> &'static str {
        REFUSED[self.place()]
    }

    fn place(self) -> usize {
        let (Self::Malformed(malformed) | Self::Seal(seal::Refused::Malformed(malformed))) = self else {
            return match self {
                Self::Absurd => 3,
                Self::Sessions => 4,
                Self::Channels => 5,
                Self::Long => 6,
                Self::Seal(seal::Refused::NoSender) => 8,
                Self::Seal(seal::Refused::Plain) => 9,
                Self::Seal(seal::Refused::Unsigned) => 10,
                Self::Seal(seal::Refused::Changed) => 11,
                Self::Seal(seal::Refused::Forged) => 12,
                Self::Stranger => 13,
                Self::Malformed(_) | Self::Seal(_) => 7,
            };
        };
        match malformed {
            Malformed::Magic => 0,
            Malformed::Version(_) => 1,
            Malformed::Sealed => 7,
            _ => 2,
        }
    }
}

/// In the order of their numbers on the wire.
const KINDS: [&str; 5] = ["data", "heartbeat", "end", "metadata", "request"];

/// In the order of [`Refused::place`].
const REFUSED: [&str; 14] = [
    "foreign",
    "version",
    "malformed",
    "implausible",
    "sessions",
    "channels",
    "long",
    "no_key",
    "no_sender",
    "plain",
    "unsigned",
    "changed",
    "forged",
    "stranger",
];
