//! The answers of the routes that take images, under the names that generated clients show.
//!
//! Serde flattens a result into its entry. Here each kind of entry is a plain object, because generators drop a schema
//! that combines an object with a choice of objects.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, schema::Schema},
};

use crate::pipeline::{
    answer::{Answer, ErrorEntry, ScanResult},
    encode::EncodeResult,
    enhance::EnhanceResult,
    process::ProcessResult,
};

macro_rules! answer {
    ($(#[$doc:meta])* $name:ident, $outcome:ty) => {
        $(#[$doc])*
        pub struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                Answer::<$outcome>::schema()
            }
        }

        impl ToSchema for $name {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($name))
            }

            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                schemas.push((<$outcome>::name().into_owned(), <$outcome>::schema()));
                Answer::<$outcome>::schemas(schemas);
            }
        }
    };
}

answer!(
    /// The answer of `/detect` and `/quality`.
    ScanAnswer,
    ScanOutcome
);
answer!(
    /// The answer of `/embed`.
    EmbedAnswer,
    EmbedOutcome
);
answer!(
    /// The answer of `/enhance`.
    EnhanceAnswer,
    EnhanceOutcome
);
answer!(
    /// The answer of `/process`.
    ProcessAnswer,
    ProcessOutcome
);

/// What became of one image.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum ScanOutcome {
    /// Its faces.
    Scanned(Box<ScannedImage>),
    /// Its error.
    Failed(ImageError),
}

/// What became of one image.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum EmbedOutcome {
    /// Its faces and their vectors.
    Scanned(Box<ScannedImage>),
    /// The vector of the whole image, with `kind=image`.
    Encoded(Box<EncodedImage>),
    /// Its error.
    Failed(ImageError),
}

/// What became of one image.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum EnhanceOutcome {
    /// The enhanced image.
    Enhanced(Box<EnhancedImage>),
    /// Its error.
    Failed(ImageError),
}

/// What became of one image.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum ProcessOutcome {
    /// What the operations made of it.
    Processed(Box<ProcessedImage>),
    /// Its error.
    Failed(ImageError),
}

/// The `status` of an image with a result.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Success {
    /// There is a result.
    Ok,
}

/// The `status` of an image without a result.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Failed {
    /// There is an error.
    Error,
}

macro_rules! entry {
    ($(#[$doc:meta])* $name:ident, $result:ty) => {
        $(#[$doc])*
        #[derive(Serialize, ToSchema)]
        pub struct $name {
            /// The place of the image in the request, from 0.
            index: usize,
            /// The caller's id: the multipart filename or the JSON `id`.
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<String>,
            // A description here would combine the text with an object.
            #[schema(inline)]
            status: Success,
            /// The result.
            #[serde(flatten)]
            result: $result,
        }
    };
}

entry!(
    /// An image that was scanned.
    ScannedImage,
    ScanResult
);
entry!(
    /// An image that was embedded as a whole.
    EncodedImage,
    EncodeResult
);
entry!(
    /// An image that was enhanced.
    EnhancedImage,
    EnhanceResult
);
entry!(
    /// An image that was processed.
    ProcessedImage,
    ProcessResult
);

/// An image that failed. The other images of the request have their results.
#[derive(Serialize, ToSchema)]
pub struct ImageError {
    /// The place of the image in the request, from 0.
    index: usize,
    /// The caller's id: the multipart filename or the JSON `id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    // As above.
    #[schema(inline)]
    status: Failed,
    /// What is wrong with the image.
    error: ErrorEntry,
}
