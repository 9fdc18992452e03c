//! Many images in one request: each has its own result, in the order they were sent.

use futures::{StreamExt, stream};

use crate::{
    error::Error,
    ingest::source::ImageInput,
    pipeline::answer::{ErrorEntry, ImageResult, Outcome},
};

/// Images of one request that are in the pipeline at a time; it bounds the decoded pictures held.
const IN_FLIGHT: usize = 4;

/// Runs `operation` on every image.
///
/// # Errors
/// The image's own error when it was the only one; among several it stands in its place.
pub async fn each<T, F>(
    images: Vec<ImageInput>,
    request_id: &str,
    operation: impl Fn(ImageInput) -> F,
) -> Result<Vec<ImageResult<T>>, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    let alone = images.len() == 1;
    let mut results = stream::iter(images.into_iter().enumerate())
        .map(|(index, image)| {
            let id = image.id.clone();
            let running = operation(image);
            async move { (index, id, running.await) }
        })
        .buffered(IN_FLIGHT);
    let mut answered = Vec::new();
    while let Some((index, id, result)) = results.next().await {
        let outcome = match result {
            Ok(result) => Outcome::Ok(result),
            Err(error) if alone => return Err(error),
            Err(error) => {
                let entry = ErrorEntry::from(&error);
                if error.kind().status >= 500 {
                    tracing::error!(request_id, index, code = entry.code, error = %error, "image failed");
                }
                Outcome::Error { error: entry }
            }
        };
        answered.push(ImageResult { index, id, outcome });
    }
    Ok(answered)
}
