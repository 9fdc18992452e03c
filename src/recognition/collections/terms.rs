//! Checks of what callers write: the terms of collections and the details of subjects.

use facescan_store::{CollectionTerms, SubjectDetails};
use serde_json::Value;

use crate::{
    config::Recognition,
    pipeline::error::InvalidOption,
    recognition::{calibration::Calibration, error::RecognitionError},
};

/// The longest name, legal basis, external id or reference, in bytes.
const MAX_TEXT: usize = 200;

/// The longest metadata of a subject, in bytes of JSON.
const MAX_METADATA: usize = 4096;

/// Checks the terms of a collection. `calibration` is that of its contract.
///
/// # Errors
/// [`RecognitionError::PurposeNotAllowed`] if the settings do not list the purpose, or [`RecognitionError::InvalidOption`]
/// with the field that is out of range.
pub fn check_terms(
    terms: &CollectionTerms,
    settings: &Recognition,
    calibration: Option<&Calibration>,
) -> Result<(), RecognitionError> {
    check_text("name", &terms.name)?;
    check_text("purpose", &terms.purpose)?;
    check_text("legal_basis", &terms.legal_basis)?;
    if !settings.purposes.contains(&terms.purpose) {
        return Err(RecognitionError::PurposeNotAllowed(terms.purpose.clone()));
    }
    let most = settings.max_retention_days;
    if !(1..=most).contains(&terms.retention_days) {
        let detail = format!("must be from 1 to {most} days, the limit of this server");
        return Err(InvalidOption::new("retention_days", detail).into());
    }
    let range = calibration.map_or((0.0, 1.0), Calibration::fars);
    if !(terms.far > 0.0 && (range.0..=range.1).contains(&terms.far)) {
        let (low, high) = range;
        let detail = format!("must be from {low} to {high}, the rates that the calibration covers");
        return Err(InvalidOption::new("far", detail).into());
    }
    Ok(())
}

/// Checks the details of a subject.
///
/// # Errors
/// [`InvalidOption`] with the field that is out of range.
pub fn check_details(details: &SubjectDetails) -> Result<(), InvalidOption> {
    if let Some(external_id) = &details.external_id {
        check_text("external_id", external_id)?;
    }
    if let Some(consent) = &details.consent {
        check_text("consent.reference", &consent.reference)?;
        if consent.expires_at <= consent.given_at {
            let detail = "must be later than given_at";
            return Err(InvalidOption::new("consent.expires_at", detail));
        }
    }
    let metadata = details.metadata.as_ref().map(Value::to_string);
    match metadata {
        Some(text) if text.len() > MAX_METADATA => {
            let detail = format!("must be at most {MAX_METADATA} bytes of JSON");
            Err(InvalidOption::new("metadata", detail))
        }
        // Postgres cannot store this character.
        Some(text) if text.contains("\\u0000") => Err(InvalidOption::new(
            "metadata",
            "must not contain a NUL character",
        )),
        _ => Ok(()),
    }
}

/// Checks a text that people read.
///
/// # Errors
/// [`InvalidOption`] if it is empty, too long, or has control characters.
pub fn check_text(field: &str, text: &str) -> Result<(), InvalidOption> {
    if text.trim().is_empty() || text.len() > MAX_TEXT || text.chars().any(char::is_control) {
        let detail = format!("must be from 1 to {MAX_TEXT} bytes without control characters");
        return Err(InvalidOption::new(field, detail));
    }
    Ok(())
}
