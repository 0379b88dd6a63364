//! What safe Rust cannot say: that memory is wanted soon.
#![allow(unsafe_code)]

/// Asks for the line of the processor's cache in which a thing begins, and does not wait for it.
#[inline]
pub(crate) fn prefetch<T>(thing: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86_64. A prefetch changes nothing, and reads nothing that anybody sees.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(thing).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = thing;
}
