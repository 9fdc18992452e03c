//! The response to a request with images. `schemas.rs` says how the document describes it.

use serde::Serialize;
use utoipa::ToSchema;

use super::ErrorEntry;
use crate::{
    core::run::{DevicesUsed, RunOutput, Timings},
    models::ModelsUsed,
};
use facescan_inference::device::DeviceState;

/// The response to a request with images.
#[derive(Clone, Debug, Serialize)]
pub struct Response<T> {
    /// The id of the request.
    pub request_id: String,
    /// The name of the operation.
    pub operation: &'static str,
    /// The models that made the results.
    pub models: ModelsUsed,
    /// The devices that most results share. A result that other devices made has its own.
    pub devices: DevicesUsed,
    /// One entry for each image, in the order of the request.
    pub results: Vec<Outcome<T>>,
    /// The sums of the times of all images, which are in headers.
    #[serde(skip)]
    pub times: TimeSums,
}

/// The sums of the times of some images, in milliseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeSums {
    /// The waits for a permit, a thread or a session.
    pub queue: f64,
    /// Detection, embedding, enhancement and processing.
    pub inference: f64,
}

/// The result or the error of one image.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Outcome<T> {
    /// The image was processed.
    Ok(Success<T>),
    /// The image failed.
    Error(Failure),
}

/// An image with its result.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Success<T> {
    /// The index of the image in the request, from 0.
    pub index: usize,
    /// The caller's id: the multipart filename or the JSON `id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    // Without a description, which would combine the text with an object.
    #[schema(inline)]
    status: Succeeded,
    /// The result.
    #[serde(flatten)]
    pub result: T,
    /// The devices of this result, if they differ from the `devices` of the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<BTreeMap<String, DeviceState>>)]
    pub devices: Option<DevicesUsed>,
    /// Milliseconds by stage. Present with `timings=true`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timings_ms: Option<Timings>,
}

/// An image that failed. The other images of the request are not affected.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = ImageError)]
pub struct Failure {
    /// The index of the image in the request, from 0.
    pub index: usize,
    /// The caller's id: the multipart filename or the JSON `id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    // Without a description, as above.
    #[schema(inline)]
    status: Failed,
    /// What is wrong with the image.
    pub error: ErrorEntry,
}

/// The `status` of an image with a result.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Succeeded {
    /// The image has a result.
    Ok,
}

/// The `status` of an image without a result.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum Failed {
    /// The image has an error.
    Error,
}

impl TimeSums {
    /// Adds the times of an image.
    pub fn add(&mut self, timings: &Timings) {
        self.queue += timings.queue;
        self.inference += timings.inference();
    }
}

impl<T> Response<T> {
    /// Iterates over the images with a result.
    pub fn succeeded(&self) -> impl Iterator<Item = &Success<T>> {
        self.results.iter().filter_map(Outcome::success)
    }

    /// Names the devices that most results have once, and removes them from those results.
    pub fn share_devices(&mut self) {
        let mut counted: Vec<(&DevicesUsed, usize)> = Vec::new();
        let results = self.results.iter().filter_map(Outcome::success);
        for used in results.filter_map(|success| success.devices.as_ref()) {
            match counted.iter_mut().find(|(known, _)| *known == used) {
                Some((_, count)) => *count += 1,
                None => counted.push((used, 1)),
            }
        }
        // If several are equally common, this is the first.
        let most_common = counted.into_iter().rev().max_by_key(|(_, count)| *count);
        let common = most_common.map_or_else(DevicesUsed::new, |(used, _)| used.clone());
        for outcome in &mut self.results {
            if let Outcome::Ok(success) = outcome {
                success.devices.take_if(|used| *used == common);
            }
        }
        self.devices = common;
    }
}

impl<T> Outcome<T> {
    /// Creates the entry of one image. A result has its own devices, and its times with `has_timings`.
    pub fn new(
        index: usize,
        id: Option<String>,
        output: Result<RunOutput<T>, ErrorEntry>,
        has_timings: bool,
    ) -> Self {
        match output {
            Ok(RunOutput { result, run, .. }) => Self::Ok(Success {
                index,
                id,
                status: Succeeded::Ok,
                result,
                devices: Some(run.devices),
                timings_ms: has_timings.then_some(run.timings),
            }),
            Err(error) => Self::Error(Failure {
                index,
                id,
                status: Failed::Error,
                error,
            }),
        }
    }

    /// Returns the image if it has a result.
    pub fn success(&self) -> Option<&Success<T>> {
        match self {
            Self::Ok(success) => Some(success),
            Self::Error(_) => None,
        }
    }

    /// Removes the devices unless an operation fell back.
    pub fn keep_fallbacks_only(&mut self) {
        if let Self::Ok(success) = self {
            success
                .devices
                .take_if(|used| !used.values().any(DeviceState::fell_back));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::run::ImageRun;

    fn outcome(active: &str) -> Outcome<()> {
        let state = DeviceState {
            requested: "cuda:0".to_owned(),
            active: active.to_owned(),
            reason: (active == "cpu").then(|| "a run on cuda:0 failed (hung)".to_owned()),
        };
        let mut run = ImageRun::default();
        run.devices.insert("face_detection".into(), state);
        let output = RunOutput {
            result: (),
            run,
            stored: None,
        };
        Outcome::new(0, None, Ok(output), false)
    }

    fn response(results: Vec<Outcome<()>>) -> Response<()> {
        let mut response = Response {
            request_id: String::new(),
            operation: "detect",
            models: ModelsUsed::default(),
            devices: DevicesUsed::new(),
            results,
            times: TimeSums::default(),
        };
        response.share_devices();
        response
    }

    #[test]
    fn a_response_names_common_devices_once_and_results_name_others() {
        let response = response(vec![outcome("cpu"), outcome("cuda:0"), outcome("cuda:0")]);
        assert_eq!(response.devices["face_detection"].active, "cuda:0");
        let own = response.succeeded().map(|success| {
            let used = success.devices.as_ref();
            used.map(|used| used["face_detection"].fell_back())
        });
        assert_eq!(own.collect::<Vec<_>>(), [Some(true), None, None]);
    }

    #[test]
    fn a_response_without_results_names_no_device() {
        let error = ErrorEntry::unreadable("gone");
        let response = response(vec![Outcome::new(0, None, Err(error), true)]);
        assert!(response.devices.is_empty());
        assert_eq!(response.succeeded().count(), 0);
    }
}
