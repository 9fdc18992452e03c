//! `/collections/{id}/enrollments`: the faces of a library.

use facescan_pipeline::{core::scan::Face, results::ErrorEntry};
use facescan_recognition::{
    collections::key,
    libraries::enroll::{FaceForLibrary, LibraryOutcome},
    verify::FaceVector,
};
use facescan_store::{FaceFilter, LibraryFace};
use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{
    enrollments::EnrollmentStatus,
    named_faces::{NamedFace, NamedFaces},
    page::Cursor,
};
use crate::http::{
    error::ApiError,
    extract::{
        collection_request::CollectionRequest, enrollment_options::LibraryRequest,
        faces::FacesRequest,
    },
    openapi::{
        bodies::LibraryBody,
        failures::{FacesFailures, LibraryFailures},
    },
    respond::{
        negotiated::Negotiated,
        page::{Listed, Page},
    },
};

/// What became of the images of a request.
#[derive(Debug, Serialize, ToSchema)]
pub struct LibraryResponse {
    /// The id of the request, as in the `x-request-id` header and in the log.
    request_id: String,
    /// One entry for each image, stored face or vector, in the order of the request.
    results: Vec<LibraryEntry>,
}

/// The faces of an image, or its error.
#[derive(Debug, Serialize, ToSchema)]
pub struct LibraryEntry {
    /// The faces. An image without a face has none.
    faces: Vec<LibraryEntryFace>,
    /// The error of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorEntry>,
}

/// What became of a face.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct LibraryEntryFace {
    /// Whether it is enrolled.
    status: EnrollmentStatus,
    /// The id of the enrolled face.
    #[serde(skip_serializing_if = "Option::is_none")]
    enrollment_id: Option<Uuid>,
    /// Why it is not enrolled: `vector_space_mismatch` or `suppressed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    /// `[x1, y1, x2, y2]` in pixels of the upright image. Absent for stored faces and vectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(min_items = 4, max_items = 4)]
    bbox: Option<[f32; 4]>,
    /// Whether the quality suffices to found a person. Another face can only be added to a person.
    acceptable: bool,
}

impl Listed for LibraryFaceResponse {
    const DESCRIPTION: &'static str = "A page of faces of a library, oldest first.";
}

/// A face of a library. No response has its vector.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LibraryFace)]
pub struct LibraryFaceResponse {
    /// The id.
    id: Uuid,
    /// The stored face that it came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    face_id: Option<Uuid>,
    /// An id that the faces of one image share. Absent if the image shows one face only and is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_id: Option<Uuid>,
    /// The person.
    #[serde(skip_serializing_if = "Option::is_none")]
    person_id: Option<Uuid>,
    /// Whether a user decided who the face shows. No clustering changes it.
    pinned: bool,
    /// Whether the quality suffices to found a person.
    acceptable: bool,
    /// When it was enrolled.
    #[serde(with = "facescan_clock::rfc3339")]
    created_at: OffsetDateTime,
}

impl From<LibraryFace> for LibraryFaceResponse {
    fn from(face: LibraryFace) -> Self {
        Self {
            id: face.enrollment.id,
            face_id: face.enrollment.face_id,
            image_id: face.image_id,
            person_id: face.membership.person_id,
            pinned: face.membership.is_pinned,
            acceptable: face.is_acceptable,
            created_at: face.enrollment.created_at,
        }
    }
}

/// The faces to list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LibraryFaceQuery {
    /// Only the faces of this person.
    person: Option<Uuid>,
    /// Only faces of nobody. Ignored with `person`.
    #[serde(default)]
    #[param(default = false)]
    unassigned: bool,
    /// The `next` of the previous page. If that face was erased meanwhile, the response is 404.
    after: Option<Uuid>,
    /// The number of faces on the page, 1 to 500.
    #[param(minimum = 1, maximum = 500, default = 50)]
    limit: Option<u32>,
}

/// Enrolls all faces of images in a library.
///
/// The faces of one image never get the same person. Stored faces and vectors can be enrolled too; a stored face also needs
/// the scope `read`, and a vector or an aligned crop the scope `search_vectors`. Their quality is not checked, and vectors belong to no image. Images are not stored. A clustering then groups the faces into people.
#[utoipa::path(
    post, path = "/collections/{id}/enrollments", operation_id = "enroll_in_library", tag = "recognition",
    security(("key" = ["enroll"])),
    params(("id" = Uuid, Path, description = "The id of the library"), LibraryRequest),
    request_body = LibraryBody,
    responses(FacesFailures)
)]
pub async fn enroll(
    request: CollectionRequest,
    body: Result<FacesRequest<LibraryRequest>, ApiError>,
) -> Result<Negotiated<LibraryResponse>, ApiError> {
    let library = request.library().await?;
    let state = &request.state;
    let body = body?;
    let (context, options) = (&body.context, body.options.scan_options());
    let named = NamedFaces::new(state, context, options, "enroll_in_library")?;
    let vector_space = &state.pipeline.models.embedder.vector_space;
    let (mut images, mut results) = (Vec::new(), Vec::new());
    let is_alone = body.content.len() == 1;
    for face in named.read(body.content).await? {
        let (found, error) = match found(vector_space, face) {
            Ok(found) => (found, None),
            // As for an image of a scan: what is wrong with the only one is wrong with the request.
            Err(error) if is_alone => return Err(error),
            Err(error) => (Vec::new(), Some(ErrorEntry::from(&error))),
        };
        let (to_enroll, faces): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        images.push(to_enroll);
        results.push(LibraryEntry { faces, error });
    }
    let outcomes = state
        .collections
        .enroll_in_library(context, &library, images)
        .await?;
    let faces = results.iter_mut().flat_map(|entry| &mut entry.faces);
    for (face, outcome) in faces.zip(outcomes.into_iter().flatten()) {
        face.add(outcome);
    }
    let response = LibraryResponse {
        request_id: context.id.to_string(),
        results,
    };
    request.small(&response)
}

impl LibraryEntryFace {
    fn add(&mut self, outcome: LibraryOutcome) {
        match outcome {
            LibraryOutcome::Enrolled(id) => {
                self.status = EnrollmentStatus::Enrolled;
                self.enrollment_id = Some(id);
            }
            LibraryOutcome::VectorSpaceMismatch => self.reason = Some("vector_space_mismatch"),
            LibraryOutcome::Suppressed => self.reason = Some("suppressed"),
        }
    }
}

/// Returns the faces of an entry of the request as the response has them before they are enrolled, or the error of its image.
fn found(
    vector_space: &str,
    face: NamedFace,
) -> Result<Vec<(FaceForLibrary, LibraryEntryFace)>, ApiError> {
    let (vector, face_id) = match face {
        NamedFace::Known(vector, face_id) => (vector, face_id),
        NamedFace::Scanned(scan) => {
            let scan = (*scan)?;
            let faces = scan.faces.iter();
            let faces = faces.filter_map(|face| of_image(vector_space, face));
            return Ok(faces.collect());
        }
    };
    let face = FaceForLibrary {
        vector,
        face_id,
        is_acceptable: true,
    };
    let shown = LibraryEntryFace {
        acceptable: true,
        ..LibraryEntryFace::default()
    };
    Ok(vec![(face, shown)])
}

fn of_image(vector_space: &str, face: &Face) -> Option<(FaceForLibrary, LibraryEntryFace)> {
    let quality = face.results.quality.as_ref();
    let acceptable = quality.is_none_or(|quality| quality.acceptable);
    let for_library = FaceForLibrary {
        vector: FaceVector::of_found(vector_space, face)?,
        face_id: None,
        is_acceptable: acceptable,
    };
    let shown = LibraryEntryFace {
        bbox: Some(face.bbox.to_array()),
        acceptable,
        ..LibraryEntryFace::default()
    };
    Some((for_library, shown))
}

/// Lists the faces of a library.
#[utoipa::path(
    get, path = "/collections/{id}/enrollments", operation_id = "list_library_faces", tag = "recognition",
    security(("key" = ["search"])),
    params(("id" = Uuid, Path, description = "The id of the library"), LibraryFaceQuery),
    responses(LibraryFailures)
)]
pub async fn list(
    request: CollectionRequest,
) -> Result<Negotiated<Page<LibraryFaceResponse>>, ApiError> {
    let library = request.library().await?;
    let query: LibraryFaceQuery = request.query()?;
    let cursor = Cursor::new(query.after, query.limit)?;
    let filter = match (query.person, query.unassigned) {
        (Some(person), _) => FaceFilter::Of(person),
        (None, true) => FaceFilter::Unassigned,
        (None, false) => FaceFilter::All,
    };
    let details = json!({"person": query.person, "after": cursor.after});
    request
        .record_read("list_library_faces", library.id, details)
        .await?;
    cursor.check_face(&request.state, &library).await?;
    let store = &request.state.collections.store;
    let listed = store
        .library_faces(key(&library), filter, cursor.wanted())
        .await?;
    let page = cursor.page(listed, |face| face.enrollment.id, LibraryFaceResponse::from);
    request.small(&page)
}
