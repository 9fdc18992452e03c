//! Prefetching: asking the CPU to load memory into its caches before it is read.

/// Bytes in a cache line.
const CACHE_LINE: usize = 64;

/// Starts to load `bytes` into the second-level cache; the first level is too small.
///
/// The call does not wait for memory. A read that misses the caches would delay the instructions after it.
#[inline(always)]
pub(crate) fn prefetch(bytes: &[u8]) {
    for byte in bytes.iter().step_by(CACHE_LINE) {
        prefetch_line(byte);
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the prefetch instruction takes a pointer")]
#[inline(always)]
fn prefetch_line(byte: &u8) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

    // SAFETY: every x86-64 CPU has the instruction. It changes nothing but the caches, and it ignores an address that
    // cannot be read. This address can be read.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(byte).cast()) };
}

/// Stable Rust has no prefetch for other architectures.
#[cfg(not(target_arch = "x86_64"))]
fn prefetch_line(_: &u8) {}
