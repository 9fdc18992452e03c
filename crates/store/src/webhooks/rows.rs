//! How webhooks and messages are read from rows.

use secrecy::SecretString;

use super::records::{DueDelivery, OldSecret};
use crate::record::{Columns, Field, record};

/// The columns of a webhook, of the table `webhooks` under the name `w`.
macro_rules! webhook_columns {
    () => {
        "w.id, w.tenant, w.batch_id, w.url, w.secret, w.created_at, w.old_secret, w.old_secret_until, \
         w.failures, w.failing_since, w.last_error, w.last_success_at, w.disabled_at, w.host"
    };
}
pub(super) use webhook_columns;

impl Field for SecretString {
    fn read(row: &Columns<'_>, column: &str) -> Result<Self, sqlx::Error> {
        Ok(row.get::<String>(column)?.into())
    }
}

impl Field for Option<OldSecret> {
    fn read(row: &Columns<'_>, _: &str) -> Result<Self, sqlx::Error> {
        let secret: Option<String> = row.get("old_secret")?;
        let old = secret.zip(row.optional_time("old_secret_until")?);
        Ok(old.map(|(secret, until)| OldSecret {
            secret: secret.into(),
            until,
        }))
    }
}

record! {
    /// A message that may be sent, with the end of the time for which its host is off.
    pub(super) struct Candidate {
        pub(super) delivery: DueDelivery,
        pub(super) host_off_until: Option<i64>,
    }
}
