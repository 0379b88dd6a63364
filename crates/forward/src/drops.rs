//! Why copies are not sent: one list of reasons, from which counters, the ledger, metrics and the log have theirs.

use std::ops::{AddAssign, Index};

use serde::{Serialize, Serializer};
use weir_program::ledger::{Counted, Value};

/// The reasons in the order of the ledger: what each means, its variant, its name in JSON and metrics, and its remedy
/// for the log; `None`: it is as configured.
macro_rules! reasons {
    ($($(#[$about:meta])+ $variant:ident, $name:literal, $remedy:expr;)+) => {
        /// Why a copy was not sent.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Reason { $($(#[$about])+ $variant,)+ }

        impl Reason {
            /// Every reason.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name in JSON and as a label of metrics.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// What to do about it; `None`: nothing, it is as configured.
            pub fn remedy(self) -> Option<&'static str> {
                match self { $(Self::$variant => $remedy,)+ }
            }
        }
    };
}

reasons! {
    /// The destination's queue was full: it is slow, or its next hop was being asked for.
    QueueFull, "queue_full", Some("it is slow, or its next hop was being asked for: raise its `queue` to bridge that");
    /// Not of the sample, as configured.
    SampledOut, "sampled_out", None;
    /// Above the destination's rate.
    RateLimited, "rate_limited", Some("above its `rate` or `bandwidth`: raise them, or sample");
    /// Longer than the protocol or the path allows (EMSGSIZE).
    TooLong, "too_long", Some("longer than the way there allows: check its MTU");
    /// No route, network or host (ENETUNREACH, EHOSTUNREACH ...), or its next hop does not answer.
    Unreachable, "unreachable", Some("no route to it, or the next hop does not answer: check `ip route get`, `ip neigh`");
    /// Forbidden by a firewall of this machine (EPERM, EACCES).
    Refused, "refused", Some("a firewall of this machine forbids it: check its output rules");
    /// Out of memory or buffers in the kernel (ENOBUFS, ENOMEM).
    NoBuffers, "no_buffers", Some("the kernel has no memory for it: a slow interface, or net.core.wmem_max");
    /// Any other error of the kernel.
    OtherError, "other_error", Some("an error of the kernel: see `-v`");
    /// Its name does not resolve (yet), or to nothing but addresses that were left out.
    Unresolved, "unresolved", Some("its name resolves to nothing that it may be sent to: check DNS, and the lines above");
    /// The source belongs to the other family, so that it cannot be kept.
    Family, "family",
        Some("an IPv4 source cannot be kept towards IPv6, nor the other way round: use `source = \"proxy\"`");
    /// It came with the last hop that it had, as configured.
    Hops, "hops", Some("it came with no hop left to go on: a loop, or a `ttl` too low on the way");
    /// It came from the address of the destination itself, as configured, or from where its answers would go round.
    Loop, "loop", Some("it came from there: have the one there not send it here, or set `loop = \"warn\"`");
    /// Still queued when the drain ended, or when a reload removed the destination.
    Abandoned, "abandoned", Some("still queued when the drain ended, or when a reload removed it");
}

/// Copies that were not sent, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; Reason::ALL.len()]);

impl Drops {
    /// The count of each reason.
    pub fn count(count: impl Fn(Reason) -> u64) -> Self {
        Self(std::array::from_fn(|at| count(Reason::ALL[at])))
    }

    /// Each reason by its name, as metrics label it.
    pub fn by_reason(&self) -> [(&'static str, u64); Reason::ALL.len()] {
        std::array::from_fn(|at| (Reason::ALL[at].name(), self.0[at]))
    }

    /// Adds so many of one reason.
    pub fn add(&mut self, reason: Reason, datagrams: u64) {
        self.0[reason as usize] += datagrams;
    }

    /// All of them.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl Index<Reason> for Drops {
    type Output = u64;

    fn index(&self, reason: Reason) -> &u64 {
        &self.0[reason as usize]
    }
}

impl AddAssign for Drops {
    fn add_assign(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }
}

impl Counted for Drops {
    fn samples(&self) -> Vec<(Option<String>, Value)> {
        self.by_reason().iter().map(|&(reason, count)| (Some(reason.to_owned()), count.into())).collect()
    }
}

/// As an object, a key for each reason.
impl Serialize for Drops {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.by_reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_every_reason() {
        let manual = include_str!("../../../docs/tee.md");
        for reason in Reason::ALL {
            assert!(manual.contains(&format!("`{}`", reason.name())), "{}", reason.name());
        }
    }
}
