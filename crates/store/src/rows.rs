//! Rows that several queries return.

use uuid::Uuid;

use crate::record::record;
use crate::values::Digest;

// The id that a query returns as its only column.
record! {
    pub(crate) struct IdRow {
        pub(crate) id: Uuid,
    }
}

// The tenant that a query returns as its only column.
record! {
    pub(crate) struct TenantRow {
        pub(crate) tenant: String,
    }
}

// The number that a query returns as its only column.
record! {
    pub(crate) struct CountRow {
        pub(crate) count: i64,
    }
}

// The position of an item.
record! {
    pub(crate) struct PositionRow {
        pub(crate) position: i64,
    }
}

// The SHA-256 of the bytes of an item.
record! {
    pub(crate) struct PayloadRow {
        pub(crate) payload: Digest,
    }
}

// A scan that is to be deleted.
record! {
    pub(crate) struct ScanKeyRow {
        pub(crate) id: Uuid,
        pub(crate) image_id: Uuid,
    }
}
