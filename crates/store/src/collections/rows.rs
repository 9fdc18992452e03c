//! How a consent is read from a row.

use super::records::Consent;
use crate::record::{Columns, Field};

impl Field for Option<Consent> {
    fn read(row: &Columns<'_>, _: &str) -> Result<Self, sqlx::Error> {
        let consent: (Option<String>, _, _) = (
            row.get("consent_reference")?,
            row.optional_time("consent_given_at")?,
            row.optional_time("consent_expires_at")?,
        );
        Ok(match consent {
            (Some(reference), Some(given_at), Some(expires_at)) => Some(Consent {
                reference,
                given_at,
                expires_at,
            }),
            _ => None,
        })
    }
}
