//! A face as a caller names it: in an image, stored, or as a vector.

use facescan_fields::FieldError;
use facescan_pipeline::ingest::source::ImageInput;
use facescan_recognition::verify::FaceVector;
use uuid::Uuid;

use super::entry::Entry;

/// A face as the caller named it.
#[derive(Debug)]
pub enum FaceInput {
    /// An image that shows the face.
    Image(ImageInput),
    /// The id of a stored face.
    Stored(Uuid),
    /// A vector.
    Vector(FaceVector),
}

impl FaceInput {
    /// Returns the image, if one was sent.
    pub fn image(&self) -> Option<&ImageInput> {
        match self {
            Self::Image(image) => Some(image),
            Self::Stored(_) | Self::Vector(_) => None,
        }
    }
}

/// The fields of an entry that is a face.
pub(super) const FACE_FIELDS: &[&str] = &["data", "url", "face_id", "embedding", "vector_space"];

impl FaceInput {
    pub(super) fn from_entry(entry: Entry) -> Result<Self, Vec<FieldError>> {
        if !entry.errors.is_empty() {
            return Err(entry.errors);
        }
        let named = [
            entry.data.is_some(),
            entry.url.is_some(),
            entry.face_id.is_some(),
            entry.embedding.is_some(),
        ];
        let one = |error: FieldError| vec![error];
        if named.into_iter().filter(|is_named| *is_named).count() != 1 {
            let allowed = "an object with exactly one of `data`, `url`, `face_id` and `embedding`";
            return Err(one(FieldError::not_allowed("", allowed)));
        }
        if let Some(id) = entry.face_id {
            return stored(&id, "face_id").map_err(one);
        }
        match (entry.embedding, entry.vector_space) {
            (Some(embedding), Some(vector_space)) => {
                let values = embedding.into_values().map_err(one)?;
                let vector = FaceVector::of_caller(vector_space, values)
                    .map_err(|error| one(FieldError::new(error.option, error.detail)))?;
                Ok(Self::Vector(vector))
            }
            (Some(_), None) => {
                let detail =
                    "is missing; an embedding needs it, as the responses of /embed have it";
                Err(one(FieldError::new("vector_space", detail)))
            }
            (None, Some(_)) => {
                let detail = "belongs to an `embedding`; leave it out";
                Err(one(FieldError::new("vector_space", detail)))
            }
            (None, None) => Ok(Self::Image(ImageInput::from_sources(entry.data, entry.url))),
        }
    }
}

pub(super) fn stored(text: &str, name: &str) -> Result<FaceInput, FieldError> {
    let id = text.trim().parse().map(FaceInput::Stored);
    id.map_err(|_| FieldError::not_allowed(name, "the id of a face, which is a UUID"))
}
