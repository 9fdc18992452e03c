//! The calls about scans that wait to be done together.

use super::records::{NewScan, SavedScan};
use crate::error::StoreError;
use crate::gathered::Gathered;

/// The scans that wait to be saved.
pub(crate) type ScansToSave = Gathered<(), Box<NewScan>, SavedOrAlone>;

pub(crate) enum SavedOrAlone {
    Ended(Result<SavedScan, StoreError>),
    /// The transaction of several scans failed because of one of them. Each call saves its own.
    Alone(Box<NewScan>),
}

/// The look-ups that wait, each with the SHA-256 of an image.
pub(crate) type LookUps = Gathered<LookUpKey, [u8; 32], LookedUp>;

/// What the look-ups of one statement have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct LookUpKey {
    pub(super) tenant: String,
    pub(super) scan_key: [u8; 32],
}

pub(crate) enum LookedUp {
    Ended(Result<bool, StoreError>),
    /// The statement failed because of one of the look-ups. Each call does its own.
    Alone,
}
