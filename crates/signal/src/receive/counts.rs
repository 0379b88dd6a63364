//! What became of each datagram and of each sample.

use weir_program::ledger;
use weir_program::ledger::{By, Names};
use weir_wire::signal::{Cause, Malformed};

use crate::seal;

ledger! {
    /// Everything that a receiver has counted. It closes: `datagrams` = the sum of `by_kind` and `refused`; data = `in_order` + `copies` +
    /// `late` + `jumps` + `waiting`.
    pub struct Counts {
        /// Datagrams that came.
        datagrams: u64,
        /// Payload bytes received.
        bytes: u64 => Counter "weir_monitor_received" ["bytes"],
        /// Datagrams received, by kind.
        by_kind: By<Kinds> => Counter "weir_monitor_received" ["datagrams"] {kind},
        /// Datagrams that were not taken, by reason: docs/monitor.md explains each.
        refused: By<Reasons> => Counter "weir_monitor_refused" ["datagrams"] {reason},
        /// Data, handed out in its order.
        in_order: u64,
        /// Data that was here already: the other of two groups, or a copy made on the way.
        copies: u64,
        /// Data that came after it had been given up, or was sent before the first that came.
        late: u64,
        /// Data that waits for what is before it, or far from all other for its successor.
        waiting: u64,
        /// Data far from all other of its session, whose successor did not follow it.
        jumps: u64,
        /// Datagrams of data that did not come.
        lost: u64,
        /// Samples received in order; a bucket is as many as it stands for.
        samples: u64 => Counter "weir_monitor" ["samples"],
        /// Samples that were here before, or are far from all others: a sender counts backwards.
        repeated: u64,
        /// Samples of channels that were not described yet.
        undescribed: u64,
        /// Blocks of channels beyond those that a session may have.
        beyond: u64,
        /// Samples that are missing, by cause.
        missing: By<Causes> => Counter "weir_monitor_missing" ["samples"] {cause},
        /// Of those, samples that their sender itself told as missing: lost before it (of what a server sends on: in front of that server,
        /// or in it), and not on the way from there.
        missing_told: u64,
        /// Sessions of senders that are known.
        sessions: usize => Gauge "weir_monitor_sessions",
        /// Sessions forgotten to make room for others.
        evicted: u64 => Counter "weir_monitor_evicted" ["sessions"],
        /// Datagrams dropped by full receive buffers of this server.
        socket_drops: u64 => Counter "weir_monitor_socket_dropped" ["datagrams"],
    } together {
        /// Datagrams of data by fate: `in_order`, a `copy` of one that was here, `late` after its gap, a `jump` away from all other, `lost`.
        Counter "weir_monitor_data" ["datagrams"] {fate}: in_order, copies as "copy", late, jumps as "jump", lost;
    }
}

/// Why a datagram is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Malformed(Malformed),
    /// All sessions that there is room for are alive.
    Sessions,
    /// A channel beyond those that a session may have.
    Channels,
    /// Longer than any datagram of this format.
    Long,
    /// It is not sealed as the keys demand.
    Seal(seal::Refused),
}

impl Counts {
    pub(super) fn refuse(&mut self, refused: Refused) {
        self.refused.add(refused.place(), 1);
    }

    /// The sender says that it lacks them.
    pub(super) fn miss_told(&mut self, cause: Cause, samples: u64) {
        self.missing.add(cause as usize, samples);
        self.missing_told = self.missing_told.saturating_add(samples);
    }

    /// What its terms leave over: 0.
    pub fn unexplained(&self) -> i64 {
        let kinds = self.by_kind.sum() + self.refused.sum();
        let data = self.by_kind[KINDS[0]];
        let fates = self.in_order + self.copies + self.late + self.jumps + self.waiting;
        (self.datagrams.wrapping_sub(kinds) as i64).abs() + (data.wrapping_sub(fates) as i64).abs()
    }
}

/// Why what is sealed otherwise than the keys demand, or cannot be read, is not taken, as the ledger calls it.
pub fn reason(refused: seal::Refused) -> &'static str {
    Refused::Seal(refused).name()
}

impl Refused {
    /// As the ledger calls it.
    pub(super) fn name(self) -> &'static str {
        REFUSED[self.place()]
    }

    fn place(self) -> usize {
        match self {
            Self::Malformed(Malformed::Magic) | Self::Seal(seal::Refused::Malformed(Malformed::Magic)) => 0,
            Self::Malformed(Malformed::Version(_)) | Self::Seal(seal::Refused::Malformed(Malformed::Version(_))) => 1,
            Self::Malformed(Malformed::Sealed) | Self::Seal(seal::Refused::NoKey) => 6,
            Self::Malformed(_) | Self::Seal(seal::Refused::Malformed(_)) => 2,
            Self::Sessions => 3,
            Self::Channels => 4,
            Self::Long => 5,
            Self::Seal(seal::Refused::NoSender) => 7,
            Self::Seal(seal::Refused::Plain) => 8,
            Self::Seal(seal::Refused::Unsigned) => 9,
            Self::Seal(seal::Refused::Changed) => 10,
            Self::Seal(seal::Refused::Forged) => 11,
        }
    }
}

/// By their numbers on the wire.
#[derive(Clone, Debug, PartialEq)]
pub struct Kinds;

impl Names for Kinds {
    fn names() -> Vec<&'static str> {
        KINDS.to_vec()
    }
}

/// Why samples are missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Causes;

impl Names for Causes {
    fn names() -> Vec<&'static str> {
        Cause::ALL.map(Cause::name).to_vec()
    }
}

/// Why datagrams were not taken, by [`Refused::place`].
#[derive(Clone, Debug, PartialEq)]
pub struct Reasons;

impl Names for Reasons {
    fn names() -> Vec<&'static str> {
        REFUSED.to_vec()
    }
}

const KINDS: [&str; 5] = ["data", "heartbeat", "end", "metadata", "request"];

/// In the order of [`Refused::place`].
const REFUSED: [&str; 12] = [
    "foreign",
    "version",
    "malformed",
    "sessions",
    "channels",
    "long",
    "no_key",
    "no_sender",
    "plain",
    "unsigned",
    "changed",
    "forged",
];
