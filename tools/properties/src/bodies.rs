//! The bodies of requests with images.

use std::fmt::Debug;

use axum::{body::Body, extract::FromRequest};
use facescan::http::{
    AppState,
    extract::{
        ImageRequest, Images, enrollment_options::EnrollRequest, face_input::FaceInput,
        faces::FacesRequest, pair::PairRequest,
    },
};
use facescan_pipeline::{
    core::options::RequestOptions,
    ingest::source::{Content, ImageInput},
    operations::{process::request::ProcessRequest, scan::request::ScanRequest},
};
use serde_json::Value;

use crate::{
    server::{in_pieces, refused, request, whole, with_server},
    submissions::{self, Submission, is_shallow},
};

const MULTIPART: &str = "multipart/form-data; boundary=edge";
const JSON: &str = "application/json";
const MSGPACK: &str = "application/msgpack";

/// What a request contains, or the code of its error.
type Outcome = Result<String, &'static str>;

/// A form is images and options, or an error of the request. The response does not depend on how the body arrives.
pub fn multipart(body: &[u8]) {
    check_images(MULTIPART, body).ok();
    submissions::check(MULTIPART, body);
}

/// A JSON body is images and options, or an error of the request. The same tree in msgpack means the same, and so do the
/// items of a submission as lines.
pub fn json_body(body: &[u8]) {
    let read = check_images(JSON, body);
    submissions::check(JSON, body);
    let Ok(tree) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    if !is_shallow(&tree) {
        return;
    }
    let Ok(packed) = rmp_serde::to_vec_named(&tree) else {
        return;
    };
    // The text of a tree has each field once. With two fields of one name, only JSON is an error.
    let text = tree.to_string();
    if read.is_ok() {
        assert_eq!(
            images(MSGPACK, &packed),
            images(JSON, text.as_bytes()),
            "{text}"
        );
    }
    submissions::check_formats(&tree, &packed);
}

/// A msgpack body is images and options, or an error of the request.
pub fn msgpack_body(body: &[u8]) {
    check_images(MSGPACK, body).ok();
    submissions::check(MSGPACK, body);
}

/// Reads a submission in a format.
pub(crate) fn submission(is_packed: bool, body: &[u8]) -> Result<Submission, &'static str> {
    let content_type = if is_packed { MSGPACK } else { JSON };
    submissions::read(content_type, body, true)
}

/// A body is two faces, or an error of the request.
fn check_pair(content_type: &str, body: &[u8]) {
    with_server(async |state| {
        let request = request(content_type, whole(body));
        match PairRequest::from_request(request, state).await {
            Ok(read) => {
                for face in &read.content {
                    let held = size_of_face(face);
                    assert!(held <= body.len(), "{} bytes became {held}", body.len());
                }
            }
            Err(error) => drop(refused(&error)),
        }
    });
}

/// A body is the faces of an enrollment, or an error of the request.
fn check_faces(content_type: &str, body: &[u8]) {
    with_server(async |state| {
        let request = request(content_type, whole(body));
        match FacesRequest::<EnrollRequest>::from_request(request, state).await {
            Ok(read) => {
                let limit = state.config.server.max_images_per_request;
                assert!((1..=limit).contains(&read.content.len()));
                let held: usize = read.content.iter().map(size_of_face).sum();
                assert!(held <= body.len(), "{} bytes became {held}", body.len());
            }
            Err(error) => drop(refused(&error)),
        }
    });
}

/// Returns the bytes of an image, or the values of a vector, each of which needs at least one byte of the body.
fn size_of_face(face: &FaceInput) -> usize {
    match face {
        FaceInput::Image(image) => size(image),
        FaceInput::Stored(_) => 0,
        FaceInput::Vector(vector) => vector.values.len(),
    }
}

/// Reads a body as two faces, as faces of an enrollment, as a scan, and as `/process`, which takes masks. Returns the scan.
fn check_images(content_type: &str, body: &[u8]) -> Outcome {
    check_pair(content_type, body);
    check_faces(content_type, body);
    check_as::<ProcessRequest>(content_type, body).ok();
    check_as::<ScanRequest>(content_type, body)
}

fn check_as<O: RequestOptions + Send + Debug>(content_type: &str, body: &[u8]) -> Outcome {
    with_server(async |state| {
        let at_once = read::<O>(state, content_type, whole(body), body.len()).await;
        let piecewise = read::<O>(state, content_type, in_pieces(body), body.len()).await;
        assert_eq!(
            at_once, piecewise,
            "the response depends on how the body arrives"
        );
        at_once
    })
}

fn images(content_type: &str, body: &[u8]) -> Outcome {
    with_server(async |state| {
        read::<ScanRequest>(state, content_type, whole(body), body.len()).await
    })
}

async fn read<O: RequestOptions + Send + Debug>(
    state: &AppState,
    content_type: &str,
    body: Body,
    len: usize,
) -> Outcome {
    let request = request(content_type, body);
    let read = ImageRequest::<O>::from_request(request, state).await;
    let read = read.map_err(|error| refused(&error))?;
    let limit = state.config.server.max_images_per_request;
    let Images { images, masks, .. } = &read.content;
    assert!((1..=limit).contains(&images.len()));
    assert!(masks.len() <= limit && (O::TAKES_MASKS || masks.is_empty()));
    let held: usize = images.iter().chain(masks).map(size).sum();
    assert!(held <= len, "{len} bytes became {held}");
    Ok(format!("{images:?} {masks:?} {:?}", read.options))
}

/// Returns the bytes of an image and of its texts.
fn size(image: &ImageInput) -> usize {
    let content = match &image.content {
        Ok(Content::Bytes(bytes)) => bytes.len(),
        Ok(Content::Url(url)) => url.len(),
        Err(error) => {
            assert!(error.to_string().len() <= 200, "{error}");
            0
        }
    };
    let texts = [&image.id, &image.source, &image.source_url];
    content + texts.into_iter().flatten().map(String::len).sum::<usize>()
}
