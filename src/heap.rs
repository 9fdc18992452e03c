//! How the process takes memory from the system, and gives it back.

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

/// Lets the process use small pages only. Call it first in `main`.
///
/// The first write to a huge page clears 2 MiB in one step, which no checkpoint divides, and virtual machines stall while
/// huge pages come and go. Beside images of 300 MB of one tenant, single requests of another took 150 to 300 ms in place of
/// 40. The throughput is the same.
#[cfg(target_os = "linux")]
pub fn use_small_pages() {
    // A kernel that refuses this has no huge pages.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
}

/// Does nothing: other systems have no setting for it.
#[cfg(not(target_os = "linux"))]
pub fn use_small_pages() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_process_uses_small_pages_only() {
        use_small_pages();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let field = status.lines().find(|line| line.starts_with("THP_enabled"));
        assert_eq!(field.unwrap_or("THP_enabled:\t0"), "THP_enabled:\t0");
    }
}
