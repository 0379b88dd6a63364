//! Why a person's command is not carried out.

use std::fmt::Display;

/// Why not.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Denied {
    /// There is no such attack.
    #[error("there is no attack {0} (it may be over: see the history)")]
    Unknown(u64),
    /// Something is against it: what, and what to do.
    #[error("{0}")]
    Refused(String),
    /// The thread that decides has ended, or takes longer than a few seconds.
    #[error("the guard does not answer")]
    Silent,
}

impl Denied {
    /// Something about an attack, or a prefix, is against it.
    pub(super) fn of(what: impl Display, why: impl Display) -> Self {
        Self::Refused(format!("{what}: {why}"))
    }

    /// Everything is stopped.
    pub(super) fn stopped(what: impl Display, by: &str) -> Self {
        Self::of(what, format!("everything was stopped by {by}: resume first"))
    }

    /// The group is only observed.
    pub(super) fn observed(what: impl Display, group: &str) -> Self {
        let why = format!("group `{group}` is only observed: set its mode to \"manual\" in the configuration first");
        Self::of(what, why)
    }

    /// Routes would live longer than anything may.
    pub(super) fn long(what: impl Display, seconds: u64, most: u64) -> Self {
        Self::of(what, format!("{seconds} s is more than ttl.most, {most} s"))
    }
}
