//! The response to a request with images, which is also what the document describes.

use std::borrow::Cow;

use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ArrayBuilder, ObjectBuilder, OneOfBuilder, Ref, RefOr,
        schema::{Schema, Type},
    },
};

use super::ErrorEntry;
use crate::{
    core::run::{DevicesUsed, RunOutput, Timings},
    models::ModelsUsed,
};
use facescan_inference::device::DeviceState;

/// The schemas of a document, by their names.
pub type NamedSchemas = Vec<(String, RefOr<Schema>)>;

/// What an operation returns for one image. A response has its fields beside those of [`Success`].
pub trait ImageResult: ToSchema + Sized {
    /// The first word of the names of the schemas, such as `Scan` of `ScanResponse`.
    const NAME: &'static str;

    /// The name of the schema of an image with this result.
    const IMAGE: &'static str;

    /// Adds the schema of an image with this result. Returns a reference to it, or one for each form of the result, because
    /// generators lose a schema that combines an object with a choice of objects.
    fn add_images(schemas: &mut NamedSchemas) -> Vec<Ref> {
        vec![add_image::<Self>(Self::IMAGE, schemas)]
    }
}

/// Adds the schema of an image with a result `T`. Returns a reference to it.
pub fn add_image<T: ToSchema>(name: &str, schemas: &mut NamedSchemas) -> Ref {
    add::<T>(schemas);
    schemas.push((name.to_owned(), Success::<T>::schema()));
    Success::<T>::schemas(schemas);
    Ref::from_schema_name(name)
}

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

impl<T: ImageResult> PartialSchema for Response<T> {
    fn schema() -> RefOr<Schema> {
        let text = |text: &'static str| {
            ObjectBuilder::new()
                .schema_type(Type::String)
                .description(Some(text))
        };
        let devices = ObjectBuilder::new()
            .additional_properties(Some(Ref::from_schema_name(DeviceState::name())))
            .description(Some(
                "The device of each operation. A result that another device made has its own `devices`.",
            ));
        let results = ArrayBuilder::new()
            .items(Ref::from_schema_name(Outcome::<T>::name()))
            .description(Some("One entry for each image."));
        let id = "The id of the request, as in the `x-request-id` header and in the log.";
        let operation = text("The name of the operation.").examples(["embed"]);
        let response = ObjectBuilder::new()
            .description(Some(
                "One result for each image, in the order of the request.",
            ))
            .property("request_id", text(id))
            .property("operation", operation)
            .property("models", Ref::from_schema_name(ModelsUsed::name()))
            .property("devices", devices)
            .property("results", results);
        let required = ["request_id", "operation", "models", "devices", "results"];
        let response = required.into_iter().fold(response, ObjectBuilder::required);
        RefOr::T(Schema::Object(response.build()))
    }
}

impl<T: ImageResult> ToSchema for Response<T> {
    fn name() -> Cow<'static, str> {
        format!("{}Response", T::NAME).into()
    }

    fn schemas(schemas: &mut NamedSchemas) {
        add::<ModelsUsed>(schemas);
        add::<DeviceState>(schemas);
        add::<Outcome<T>>(schemas);
    }
}

impl<T: ImageResult> PartialSchema for Outcome<T> {
    fn schema() -> RefOr<Schema> {
        let images = T::add_images(&mut Vec::new());
        let entry = OneOfBuilder::new().description(Some("The result or the error of one image."));
        let entry = images.into_iter().fold(entry, OneOfBuilder::item);
        let entry = entry.item(Ref::from_schema_name(Failure::name()));
        RefOr::T(Schema::OneOf(entry.build()))
    }
}

impl<T: ImageResult> ToSchema for Outcome<T> {
    fn name() -> Cow<'static, str> {
        format!("{}Outcome", T::NAME).into()
    }

    fn schemas(schemas: &mut NamedSchemas) {
        T::add_images(schemas);
        add::<Failure>(schemas);
    }
}

/// Adds the schema of a type, and those that it refers to.
fn add<T: ToSchema>(schemas: &mut NamedSchemas) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
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
