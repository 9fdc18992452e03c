//! The bodies of routes that take a few fields.

use axum::{
    extract::{FromRequest, Request},
    http::HeaderMap,
};
use facescan_fields as fields;
use facescan_pipeline::ingest::text::NUL;
use facescan_store::has_nul;
use serde::de::DeserializeOwned;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    arriving::{self, body, content_type},
    body::number,
    parsing::{check_is_object, from_json},
};
use crate::http::{AppState, error::ApiError};

/// The maximum length of a body, in bytes.
pub const MAX_OBJECT_BYTES: usize = 64 << 10;

/// A JSON body that is an object of at most [`MAX_OBJECT_BYTES`] bytes. A list of its values in order is not one, although serde
/// would accept it.
pub struct JsonObject<T>(pub T);

impl<T> FromRequest<AppState> for JsonObject<T>
where
    T: DeserializeOwned + ToSchema + 'static,
{
    type Rejection = ApiError;

    async fn from_request(mut request: Request, state: &AppState) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(ApiError::UnsupportedMediaType(
                "this route takes a JSON object, {} at least; send it with the content-type application/json"
                    .to_owned(),
            ));
        }
        let _reservation = arriving::reserve(&mut request, &state.admission, MAX_OBJECT_BYTES)?;
        let body = body(request, MAX_OBJECT_BYTES).await?;
        check_is_object(&body, true)?;
        if std::str::from_utf8(&body).is_ok_and(has_nul) {
            return Err(ApiError::invalid_option("body", NUL));
        }
        let mut tree: Value = from_json(&body)?;
        convert_numbers(&mut tree);
        Ok(Self(fields::read(&tree, "field")?))
    }
}

/// Converts numbers such as `30.0`, which JSON Schema treats as integers.
fn convert_numbers(tree: &mut Value) {
    match tree {
        Value::Number(float) if float.is_f64() => {
            *tree = number(float.as_f64().unwrap_or_default());
        }
        Value::Array(list) => list.iter_mut().for_each(convert_numbers),
        Value::Object(fields) => fields.values_mut().for_each(convert_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Returns whether the content type is JSON or one of its kind, such as `application/merge-patch+json`.
fn is_json(headers: &HeaderMap) -> bool {
    content_type(headers).is_some_and(|parsed| {
        parsed.type_() == mime::APPLICATION
            && (parsed.subtype() == mime::JSON || parsed.suffix() == Some(mime::JSON))
    })
}
