//! Whether an address of a destination is thought to live: evidence in, one verdict out.
//!
//! Workers ask [`Health::up`] for every run of datagrams and note what they see; probes note what they find. All of it
//! is atomic, so that nobody waits for anybody.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What somebody saw of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// ICMP said that its port is unreachable.
    PortUnreachable,
    /// The kernel refused to send to it.
    SendError,
    /// The kernel took a datagram for it.
    Sent,
    /// A probe found no life.
    ProbeFailed,
    /// A probe was answered.
    ProbeAnswered,
}

/// The verdict on one address. Shared by all workers.
#[derive(Debug, Default)]
pub struct Health {
    /// Milliseconds of [`now`] until which it counts as dead; 0: it lives.
    down_until: AtomicU64,
    /// Send errors since the last datagram that the kernel took.
    errors: AtomicU32,
}

impl Health {
    /// Whether it is thought to live. After [`HOLD_DOWN`] without new evidence it is tried again.
    pub fn up(&self) -> bool {
        match self.down_until.load(Ordering::Relaxed) {
            0 => true,
            until => now() >= until,
        }
    }

    /// Takes note.
    pub fn note(&self, evidence: Evidence) {
        match evidence {
            Evidence::PortUnreachable | Evidence::ProbeFailed => self.hold_down(),
            Evidence::SendError => {
                if self.errors.fetch_add(1, Ordering::Relaxed) + 1 >= ERRORS {
                    self.hold_down();
                }
            }
            // Called for every batch: the line must not change hands while all is well.
            Evidence::Sent => {
                if self.errors.load(Ordering::Relaxed) != 0 {
                    self.errors.store(0, Ordering::Relaxed);
                }
            }
            Evidence::ProbeAnswered => {
                self.errors.store(0, Ordering::Relaxed);
                self.down_until.store(0, Ordering::Relaxed);
            }
        }
    }

    fn hold_down(&self) {
        self.down_until.store(now() + HOLD_DOWN.as_millis() as u64, Ordering::Relaxed);
    }
}

/// Milliseconds since the first call, and 1: never 0.
fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

/// How long a verdict lasts without new evidence.
pub const HOLD_DOWN: Duration = Duration::from_secs(10);

/// Send errors in a row that make a verdict.
const ERRORS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_makes_the_verdict() {
        let health = Health::default();
        assert!(health.up());
        health.note(Evidence::SendError);
        health.note(Evidence::SendError);
        health.note(Evidence::Sent);
        health.note(Evidence::SendError);
        assert!(health.up(), "a success in between starts the count anew");
        health.note(Evidence::PortUnreachable);
        assert!(!health.up());
        health.note(Evidence::ProbeAnswered);
        assert!(health.up());
    }
}
