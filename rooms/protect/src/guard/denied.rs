//! Why a person's command is not carried out.

use ipnet::IpNet;

use crate::model::Refusal;

/// Why not.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Denied {
    /// There is no such attack.
    #[error("there is no attack {0} (it may be over: see the history)")]
    Unknown(u64),
    /// It is over, and its target is attacked by the same again.
    #[error("attack {id} is over, and attack {next} continues it: name that one")]
    Continued {
        /// Which.
        id: u64,
        /// Which one goes on.
        next: u64,
    },
    /// It is stopped.
    #[error("attack {id}: everything was stopped by {by}: resume first")]
    Stopped {
        /// Which.
        id: u64,
        /// Who did.
        by: String,
    },
    /// The group is observed only.
    #[error("attack {id}: group `{group}` is only observed: set its mode to \"manual\" in the configuration first")]
    Observed {
        /// Which.
        id: u64,
        /// Its group.
        group: String,
    },
    /// A limit that no approval lifts.
    #[error("attack {id}: {}", refusal.why)]
    Refused {
        /// Which.
        id: u64,
        /// Which limit.
        refusal: Refusal,
    },
    /// All that can be done is done.
    #[error("attack {0}: its last step is announced already")]
    Done(u64),
    /// Nothing is announced for it.
    #[error("attack {0}: nothing is announced for it")]
    Idle(u64),
    /// Longer than anything may live.
    #[error("attack {id}: {seconds} s is more than ttl.most, {most} s")]
    Long {
        /// Which.
        id: u64,
        /// What was asked.
        seconds: u64,
        /// What may be.
        most: u64,
    },
    /// A prefix that nobody may blackhole.
    #[error("{prefix}: {why}")]
    Forbidden {
        /// Which.
        prefix: IpNet,
        /// Why.
        why: String,
    },
    /// It was stopped, or not stopped, already.
    #[error("{0}")]
    Already(&'static str),
}
