//! The caches of the processor.

/// Bytes that the processor fetches at a time.
const LINE: usize = 64;

/// Has bytes brought near that are needed soon: into the second cache, as the first is small. Nothing waits for them, while
/// reads of what is far away hold up everything after them.
#[inline(always)]
pub(super) fn fetch(bytes: &[u8]) {
    for byte in bytes.iter().step_by(LINE) {
        fetch_line(byte);
    }
}

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "prefetching takes a pointer")]
#[inline(always)]
fn fetch_line(byte: &u8) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

    // SAFETY: every processor of this architecture has the instruction, which changes nothing but the caches and ignores an
    // address that cannot be read. This one can be.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(byte).cast()) };
}

/// Rust has no way to ask for it elsewhere.
#[cfg(not(target_arch = "x86_64"))]
fn fetch_line(_: &u8) {}
