//! Whether standard output was open when the program began. Rust replaces closed descriptors with /dev/null before
//! `main`, so this must be checked earlier.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Whether it was closed (`>&-`): all output is lost then.
pub(super) fn was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

extern "C" fn look() {
    // SAFETY: F_GETFD takes no argument and changes nothing; of a closed descriptor it fails.
    let flags = unsafe { nix::libc::fcntl(nix::libc::STDOUT_FILENO, nix::libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

/// The C library calls the functions in this section before `main`, with nothing else running.
// SAFETY: the section is a list of pointers to functions of the C calling convention, and this is one.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;
