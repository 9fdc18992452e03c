//! The file descriptors of the process. Each connection takes one.

/// The descriptors that connections leave for the database, for fetched images and for files.
const RESERVED: u64 = 100;

/// Raises the limit of open files to the most that the system allows. Many systems start a process with less.
#[cfg(unix)]
pub fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "the limit of open files cannot be raised");
    }
}

/// Does nothing: the system has no such limit.
#[cfg(not(unix))]
pub fn raise_limit() {}

/// Returns how many of `wanted` connections the limit of open files allows.
pub fn allowed_connections(wanted: usize) -> usize {
    allowed(wanted, limit())
}

#[cfg(unix)]
fn limit() -> Option<u64> {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current
}

#[cfg(not(unix))]
fn limit() -> Option<u64> {
    None
}

fn allowed(wanted: usize, limit: Option<u64>) -> usize {
    let Some(limit) = limit else { return wanted };
    let free = limit.saturating_sub(RESERVED.min(limit / 2));
    usize::try_from(free).unwrap_or(usize::MAX).clamp(1, wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest() {
        for (wanted, limit, expected) in [
            (2048, None, 2048),
            (2048, Some(1_048_576), 2048),
            (2048, Some(1024), 924),
            (2048, Some(128), 64),
            (2048, Some(1), 1),
            (8, Some(1024), 8),
        ] {
            assert_eq!(allowed(wanted, limit), expected, "{wanted} of {limit:?}");
        }
    }
}
