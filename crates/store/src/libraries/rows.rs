//! How the person of a face is read from a row.

use super::records::Membership;
use crate::record::{Columns, Field};

/// A face without a membership shows nobody.
impl Field for Membership {
    fn read(row: &Columns<'_>, _: &str) -> Result<Self, sqlx::Error> {
        Ok(Self {
            person_id: row.get("person_id")?,
            is_pinned: row.get::<Option<bool>>("is_pinned")?.unwrap_or(false),
        })
    }
}
