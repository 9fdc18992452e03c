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
