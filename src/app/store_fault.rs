//! What keeps the database from being used.

use std::sync::{Mutex, MutexGuard, PoisonError};

use facescan_store::StoreError;

/// The reason why the last attempt to prepare the database failed, if an operator must repair it.
#[derive(Debug, Default)]
pub struct StoreFault(Mutex<Option<String>>);

impl StoreFault {
    /// Returns the reason, if there is one.
    pub fn get(&self) -> Option<String> {
        self.reason().clone()
    }

    /// Replaces the reason. Returns whether it is another one than before.
    pub fn replace(&self, reason: Option<String>) -> bool {
        let mut current = self.reason();
        let is_new = *current != reason;
        *current = reason;
        is_new
    }

    fn reason(&self) -> MutexGuard<'_, Option<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns what `/readyz` says about an error of the database. Everyone can read it, so it has nothing of the settings.
pub fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Tls(_)
        | StoreError::NotMigrated(_)
        | StoreError::Schema(_)
        | StoreError::Corrupt(_) => error.to_string(),
        StoreError::Unavailable(_) if error.refuses_writes() => {
            "the database cannot be written, because its disk is full or read-only; see the log"
                .to_owned()
        }
        StoreError::Unavailable(_) => "the database does not answer".to_owned(),
        StoreError::Url(_)
        | StoreError::Directory { .. }
        | StoreError::Invalid(_)
        | StoreError::NulInText
        | StoreError::Refused(_) => {
            "the database's tables cannot be used; see the log for the reason".to_owned()
        }
    }
}
