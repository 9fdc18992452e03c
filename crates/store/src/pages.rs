//! Pages of lists.

use uuid::Uuid;

/// One page of a list.
#[derive(Clone, Copy, Debug)]
pub struct PageRequest {
    /// The last id of the previous page; `None` for the first page.
    pub after: Option<Uuid>,
    /// The maximum number of entries to return. Every value is allowed, and 0 returns no entry.
    pub limit: u32,
}

/// Returns the number that is less than the positions of a page after the position `after`.
pub(crate) fn before_page(after: Option<u64>) -> i64 {
    after.map_or(-1, |after| i64::try_from(after).unwrap_or(i64::MAX))
}
