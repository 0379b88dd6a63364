//! What whoever runs the tests ignores is not ignored by the programs that tests start.
//!
//! `nohup` and a shell's `&` have their programs ignore signals, which programs started by those inherit, and `weir` rightly goes on
//! ignoring: a test that signals it would wait for ever.

#![allow(unsafe_code)]

use std::mem;
use std::ptr;

use nix::libc::{self, c_int};

/// Called before `main`, when there is one thread: whatever the process starts later has it.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_THE_START: extern "C" fn() = hear_what_is_ignored;

/// Catches what is ignored, and does nothing then: for this process it is the same, and what is caught is as by default in a
/// program that it starts (execve(2)).
extern "C" fn hear_what_is_ignored() {
    for signal in SIGNALS {
        // SAFETY: all of it may be zero: the default, no signals, no flags.
        let mut action: libc::sigaction = unsafe { mem::zeroed() };
        // SAFETY: there is room for an action, and none is set.
        let asked = unsafe { libc::sigaction(signal, ptr::null(), &raw mut action) };
        if asked == 0 && action.sa_sigaction == libc::SIG_IGN {
            action.sa_sigaction = nothing as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            // SAFETY: the action is whole, and its handler does nothing that a handler may not do.
            unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) };
        }
    }
}

extern "C" fn nothing(_: c_int) {}

/// Those that a shell or `nohup` ignores, and that ask a program to end.
const SIGNALS: [c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
