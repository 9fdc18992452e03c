//! Checks of what callers write: the terms of collections and the details of subjects.

use std::borrow::Cow;

use facescan_config::Recognition;
use facescan_pipeline::core::error::InvalidOption;
use facescan_store::{CollectionTerms, SubjectDetails, TermsChange, has_nul};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ObjectBuilder, RefOr,
        schema::{Schema, Type},
    },
};

use crate::{calibration::Calibration, error::RecognitionError};

/// The longest name, legal basis, external id or reference, in characters.
const MAX_TEXT: usize = 200;

/// The longest metadata of a subject, in bytes of JSON.
const MAX_METADATA: usize = 4096;

/// The schema of a text that [`check_text`] accepts.
pub struct Text;

impl PartialSchema for Text {
    fn schema() -> RefOr<Schema> {
        // Without control characters, and not only white space.
        let pattern = r"^[^\x00-\x1F\x7F-\x9F]*[^\s\x00-\x1F\x7F-\x9F][^\x00-\x1F\x7F-\x9F]*$";
        ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(MAX_TEXT))
            .pattern(Some(pattern))
            .into()
    }
}

impl ToSchema for Text {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Text")
    }
}

/// Checks the terms of a new collection. `calibration` is that of its vector space.
///
/// # Errors
/// [`RecognitionError::PurposeNotAllowed`] if the settings do not list the purpose, or [`RecognitionError::InvalidOption`]
/// with the field that is out of range.
pub fn check_terms(
    terms: &CollectionTerms,
    settings: &Recognition,
    calibration: Option<&Calibration>,
) -> Result<(), RecognitionError> {
    check_text("purpose", &terms.purpose)?;
    if !settings.purposes.contains(&terms.purpose) {
        return Err(RecognitionError::PurposeNotAllowed(terms.purpose.clone()));
    }
    let all = TermsChange {
        name: Some(terms.name.clone()),
        legal_basis: Some(terms.legal_basis.clone()),
        consent_required: Some(terms.consent_required),
        retention_days: Some(terms.retention_days),
        far: Some(terms.far),
    };
    Ok(check_change(&all, settings, calibration)?)
}

/// Checks the terms of a collection that are changed. `calibration` is that of its vector space.
///
/// # Errors
/// [`InvalidOption`] with the field that is out of range.
pub fn check_change(
    change: &TermsChange,
    settings: &Recognition,
    calibration: Option<&Calibration>,
) -> Result<(), InvalidOption> {
    let texts = [("name", &change.name), ("legal_basis", &change.legal_basis)];
    for (field, text) in texts {
        if let Some(text) = text {
            check_text(field, text)?;
        }
    }
    let most = settings.max_retention_days;
    if !change
        .retention_days
        .is_none_or(|days| (1..=most).contains(&days))
    {
        let detail = format!("must be from 1 to {most} days, the limit of this server");
        return Err(InvalidOption::new("retention_days", detail));
    }
    check_far(change.far, calibration, settings.max_search_far)
}

/// Checks a false accept rate, if there is one. `max_far` is the highest of a search.
///
/// # Errors
/// [`InvalidOption`] if it is out of range.
pub(crate) fn check_far(
    far: Option<f64>,
    calibration: Option<&Calibration>,
    max_far: f64,
) -> Result<(), InvalidOption> {
    let (low, high) = calibration.map_or((0.0, 1.0), Calibration::fars);
    let high = high.min(max_far);
    let is_rate = |far: f64| far > 0.0 && (low..=high).contains(&far);
    if !far.is_none_or(is_rate) {
        let detail = format!(
            "must be from {low} to {high}, the rates that the calibration and recognition.max_search_far allow"
        );
        return Err(InvalidOption::new("far", detail));
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
    let Some(metadata) = details.metadata.as_ref().map(ToString::to_string) else {
        return Ok(());
    };
    if metadata.len() > MAX_METADATA {
        let detail = format!("must be at most {MAX_METADATA} bytes of JSON");
        return Err(InvalidOption::new("metadata", detail));
    }
    // Postgres cannot store it.
    if has_nul(&metadata) {
        let detail = "must not contain a NUL character";
        return Err(InvalidOption::new("metadata", detail));
    }
    Ok(())
}

/// Checks a text that people read.
///
/// # Errors
/// [`InvalidOption`] if it is empty, too long, or has control characters.
pub fn check_text(field: &str, text: &str) -> Result<(), InvalidOption> {
    if text.trim().is_empty()
        || text.chars().count() > MAX_TEXT
        || text.chars().any(char::is_control)
    {
        let detail = format!("must be from 1 to {MAX_TEXT} characters without control characters");
        return Err(InvalidOption::new(field, detail));
    }
    Ok(())
}
