//! The heap of the libraries that are not written in Rust, such as ONNX Runtime.

/// Blocks of this size and more are returned to the system when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: libc::c_int = 1 << 20;

/// Lets the C library return large blocks to the system. Call it first in `main`.
///
/// Without this, glibc raises its limit for large blocks to 32 MiB as blocks are freed. The inputs and outputs of models then
/// leave gaps in the heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "there is no safe function for this")]
pub fn return_large_blocks() {
    for option in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: both options take any number of bytes, and no other thread has started yet.
        unsafe { libc::mallopt(option, LARGE_BLOCK) };
    }
}

/// Does nothing: only glibc keeps large blocks.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn return_large_blocks() {}
