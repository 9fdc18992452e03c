//! Which values of a scan cannot be stored.

use super::records::{NewFace, NewScan, Source};
use crate::error::StoreError;

/// The longest source id in bytes. Postgres allows 2704 bytes for the index entry that holds it.
const MAX_SOURCE_ID: usize = 1024;

/// Refuses a NUL character in the tenant, the format, the operation and the source, because Postgres cannot store it.
/// Refuses a number of a face that is not finite, because the databases store it differently. This runs before any
/// statement.
pub fn check_scan(scan: &NewScan) -> Result<(), StoreError> {
    check_text("tenant", &scan.tenant)?;
    check_text("format", &scan.image.format)?;
    check_text("operation", &scan.record.operation)?;
    if let Some(source) = &scan.source {
        check_source(source)?;
    }
    if let Some(embedding) = &scan.record.image_embedding
        && !embedding
            .vector
            .iter()
            .chain([&embedding.norm])
            .all(|value| value.is_finite())
    {
        return Err(StoreError::Invalid(
            "the vector of the image has a value that is not finite; save finite numbers".into(),
        ));
    }
    for (index, face) in scan.faces.iter().enumerate() {
        if let Some(field) = field_not_finite(face) {
            return Err(StoreError::Invalid(format!(
                "the {field} of face {index} has a value that is not finite; save finite numbers"
            )));
        }
    }
    Ok(())
}

/// Returns the name of the first field that has a number that is not finite.
fn field_not_finite(face: &NewFace) -> Option<&'static str> {
    let is_finite = |numbers: &[f32]| numbers.iter().all(|number| number.is_finite());
    let landmarks = face.landmarks.as_ref().map(|points| points.as_flattened());
    let embedding = face.embedding.as_ref();
    let fields = [
        ("bbox", is_finite(&face.bbox.to_array())),
        ("score", is_finite(face.score.as_slice())),
        ("landmarks", landmarks.is_none_or(is_finite)),
        (
            "embedding",
            embedding.is_none_or(|it| it.norm.is_finite() && is_finite(&it.vector)),
        ),
    ];
    fields
        .into_iter()
        .find_map(|(name, is_finite)| (!is_finite).then_some(name))
}

/// Refuses an id or a URL with a NUL character, and an id that is too long.
pub(super) fn check_source(source: &Source) -> Result<(), StoreError> {
    let id = source.id.as_deref().unwrap_or_default();
    check_text("source id", id)?;
    check_text("source URL", source.url.as_deref().unwrap_or_default())?;
    if id.len() > MAX_SOURCE_ID {
        let length = id.len();
        return Err(StoreError::Invalid(format!(
            "the source id has {length} bytes; at most {MAX_SOURCE_ID} are allowed"
        )));
    }
    Ok(())
}

fn check_text(name: &str, text: &str) -> Result<(), StoreError> {
    if text.contains('\0') {
        return Err(StoreError::Invalid(format!(
            "the {name} contains a NUL character; remove it"
        )));
    }
    Ok(())
}
