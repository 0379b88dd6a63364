//! What safe Rust cannot say: that memory is wanted soon.
#![allow(unsafe_code)]

/// Asks for all lines of the processor's cache in which a thing lies, and waits for none.
#[inline]
pub(crate) fn prefetch<T>(thing: &T) {
    let start = std::ptr::from_ref(thing).cast::<i8>();
    for at in (0..size_of::<T>()).step_by(LINE) {
        ask(start.wrapping_add(at));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn ask(line: *const i8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: SSE is part of x86_64. A prefetch changes nothing, reads nothing that anybody sees, and bears any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
}

#[cfg(not(target_arch = "x86_64"))]
fn ask(_line: *const i8) {}

/// Bytes of a line.
const LINE: usize = 64;
