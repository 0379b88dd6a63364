//! What the kernel knows of its clock: adjtimex(2), which needs no privilege to ask.
#![allow(unsafe_code)]

use std::mem::zeroed;

/// How the clock is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    /// Whether something keeps it right (no STA_UNSYNC).
    pub(super) synchronized: bool,
    /// It is wrong by at most so many nanoseconds.
    pub(super) most_error_ns: u64,
}

/// `None`: the kernel does not tell.
pub(super) fn kept() -> Option<Kept> {
    // SAFETY: all of it is numbers, of which 0 asks for no change (`modes`).
    let mut asked: libc::timex = unsafe { zeroed() };
    // SAFETY: it lives until the call returns, which writes within it.
    let state = unsafe { libc::adjtimex(&mut asked) };
    (state >= 0).then(|| Kept {
        synchronized: asked.status & libc::STA_UNSYNC == 0,
        most_error_ns: u64::try_from(asked.maxerror).unwrap_or(0).saturating_mul(1000),
    })
}
