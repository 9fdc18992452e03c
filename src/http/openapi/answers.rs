//! The answers of the routes that take images. Generated clients use the names of these types.
//!
//! Serde flattens a result into its entry. Here each kind of entry is a plain object, because generators lose a schema
//! that combines an object with a choice of objects.

use std::{borrow::Cow, collections::BTreeMap};

use facescan_pipeline::{
    core::run::Timings,
    operations::{enhance::result::EnhanceResult, process::result::ProcessResult},
    results::{Answer, ErrorEntry, ScanResult, embed_image::ImageEmbeddingResult},
};
use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{RefOr, schema::Schema},
};

use facescan_inference::device::DeviceState;

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
    /// The answer of a scan.
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

/// The result or the error of one image.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum ScanOutcome {
    /// The faces of the image.
    Scanned(Box<ScannedImage>),
    /// The error.
    Failed(ImageError),
}

/// The result or the error of one image.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum EmbedOutcome {
    /// The faces of the image and their vectors.
    Scanned(Box<ScannedImage>),
    /// The vector of the whole image, with `kind=image`.
    Encoded(Box<EncodedImage>),
    /// The error.
    Failed(ImageError),
}

/// The result or the error of one image.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum EnhanceOutcome {
    /// The enhanced image.
    Enhanced(Box<EnhancedImage>),
    /// The error.
    Failed(ImageError),
}

/// The result or the error of one image.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
pub enum ProcessOutcome {
    /// The result of the operations.
    Processed(Box<ProcessedImage>),
    /// The error.
    Failed(ImageError),
}

/// The `status` of an image with a result.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Success {
    /// The image has a result.
    Ok,
}

/// The `status` of an image without a result.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Failed {
    /// The image has an error.
    Error,
}

macro_rules! entry {
    ($(#[$doc:meta])* $name:ident, $result:ty) => {
        $(#[$doc])*
        #[derive(Serialize, ToSchema)]
        pub struct $name {
            /// The index of the image in the request, from 0.
            index: usize,
            /// The caller's id: the multipart filename or the JSON `id`.
            #[serde(skip_serializing_if = "Option::is_none")]
            id: Option<String>,
            // Without a description, which would combine the text with an object.
            #[schema(inline)]
            status: Success,
            /// The result.
            #[serde(flatten)]
            result: $result,
            /// The devices of this result, if they differ from the answer's `devices`.
            #[serde(skip_serializing_if = "Option::is_none")]
            devices: Option<BTreeMap<String, DeviceState>>,
            /// Milliseconds by stage. Present with `timings=true`.
            #[serde(skip_serializing_if = "Option::is_none")]
            timings_ms: Option<Timings>,
        }
    };
}

entry!(
    /// An image with the results of a scan.
    ScannedImage,
    ScanResult
);
entry!(
    /// An image with the vector of the whole image.
    EncodedImage,
    ImageEmbeddingResult
);
entry!(
    /// An image with its enhanced version.
    EnhancedImage,
    EnhanceResult
);
entry!(
    /// An image with the results of the operations.
    ProcessedImage,
    ProcessResult
);

/// An image that failed. The other images of the request are not affected.
#[derive(Serialize, ToSchema)]
pub struct ImageError {
    /// The index of the image in the request, from 0.
    index: usize,
    /// The caller's id: the multipart filename or the JSON `id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    // Without a description, as above.
    #[schema(inline)]
    status: Failed,
    /// What is wrong with the image.
    error: ErrorEntry,
}
