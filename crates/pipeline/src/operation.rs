//! The operations of the API on images, declared once.
//!
//! Names in responses, in the audit trail and in the keys of stored results, the scopes of routes and batches, the operations
//! of batches, and the models that a worker needs for each follow from this table.

use facescan_config::scope::Scope;
use facescan_inference::device_task::DeviceTask;
use serde::{Deserialize, Serialize};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{ObjectBuilder, RefOr, Schema, Type},
};

/// Declares each operation once. `scope` is what its route needs. A batch needs the scope `batch`, and `search` too if its
/// operation does.
///
/// - `scans` find faces. They have one plan, their results are stored, and batches can have them. `id` is the name in generated
///   clients, and the text describes the route. `model` is the task whose model runs on each face. `quality` says whether the
///   faces and the image are measured, and `whole_images` whether the operation can embed whole images instead.
/// - `batched` operations are those that batches can also have. `models` has the tasks whose models a plan can need.
/// - `single` operations need a request of their own.
macro_rules! operations {
    (
        scans { $(
            $(#[doc = $scan_doc:literal])+
            $scan:ident = $scan_name:literal, $id:literal {
                scope: $scan_scope:ident, model: $model:expr, quality: $quality:literal,
                whole_images: $whole_images:literal
            }
        )+ }
        batched { $(
            $(#[doc = $batched_doc:literal])+
            $batched:ident = $batched_name:literal { scope: $batched_scope:ident, models: [$($task:ident),+] }
        )+ }
        single { $(
            $(#[doc = $single_doc:literal])+
            $single:ident = $single_name:literal { scope: $single_scope:ident }
        )+ }
    ) => {
        /// An operation of the API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Operation {
            $($(#[doc = $scan_doc])+ $scan,)+
            $($(#[doc = $batched_doc])+ $batched,)+
            $($(#[doc = $single_doc])+ $single,)+
        }

        impl Operation {
            /// Every operation.
            pub const ALL: [Self; [$($scan_name,)+ $($batched_name,)+ $($single_name),+].len()] =
                [$(Self::$scan,)+ $(Self::$batched,)+ $(Self::$single),+];

            /// Returns the name. The path of its route ends in it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$scan => $scan_name,)+
                    $(Self::$batched => $batched_name,)+
                    $(Self::$single => $single_name,)+
                }
            }

            /// Returns the scope that the route needs.
            pub fn scope(self) -> Scope {
                match self {
                    $(Self::$scan => Scope::$scan_scope,)+
                    $(Self::$batched => Scope::$batched_scope,)+
                    $(Self::$single => Scope::$single_scope,)+
                }
            }
        }

        /// An operation that finds faces.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum ScanKind {
            $($(#[doc = $scan_doc])+ $scan,)+
        }

        impl ScanKind {
            /// Every scan.
            pub const ALL: [Self; [$($scan_name),+].len()] = [$(Self::$scan),+];

            /// Returns the name of the operation in generated clients.
            pub fn client_name(self) -> &'static str {
                match self {
                    $(Self::$scan => $id,)+
                }
            }

            /// Returns the description of the route.
            pub fn description(self) -> &'static str {
                match self {
                    $(Self::$scan => concat!($($scan_doc),+).trim_ascii(),)+
                }
            }

            /// Returns the operation.
            pub fn operation(self) -> Operation {
                match self {
                    $(Self::$scan => Operation::$scan,)+
                }
            }

            /// Returns the task whose model runs on each face, if there is one.
            pub(crate) fn model(self) -> Option<DeviceTask> {
                match self {
                    $(Self::$scan => $model,)+
                }
            }

            /// Returns whether the quality of the faces and of the image is measured.
            pub(crate) fn measures_quality(self) -> bool {
                match self {
                    $(Self::$scan => $quality,)+
                }
            }

            /// Returns whether the operation can embed whole images instead of faces.
            pub fn has_whole_images(self) -> bool {
                match self {
                    $(Self::$scan => $whole_images,)+
                }
            }
        }

        /// The operation of a batch.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(into = "&'static str", try_from = "String")]
        pub enum BatchOperation {
            /// Finds faces.
            Scan(ScanKind),
            $($(#[doc = $batched_doc])+ $batched,)+
        }

        impl BatchOperation {
            /// Every operation of batches.
            pub const ALL: [Self; [$($scan_name,)+ $($batched_name),+].len()] =
                [$(Self::Scan(ScanKind::$scan),)+ $(Self::$batched),+];

            /// Returns the operation.
            pub fn operation(self) -> Operation {
                match self {
                    Self::Scan(kind) => kind.operation(),
                    $(Self::$batched => Operation::$batched,)+
                }
            }

            /// Returns the sets of models that plans of the operation can need, by the device tasks that run them.
            pub fn model_sets(self) -> Vec<Vec<DeviceTask>> {
                match self {
                    Self::Scan(kind) => {
                        let faces = [DeviceTask::FaceDetection].into_iter().chain(kind.model());
                        let images = kind.has_whole_images().then(|| vec![DeviceTask::ImageEmbedding]);
                        [faces.collect()].into_iter().chain(images).collect()
                    }
                    $(Self::$batched => vec![vec![$(DeviceTask::$task),+]],)+
                }
            }
        }
    };
}

operations! {
    scans {
        /// Finds the faces of images.
        Detect = "detect", "detect_faces" { scope: Infer, model: None, quality: false, whole_images: false }
        /// Finds the faces of images and computes the vector of each, or the vectors of whole images.
        Embed = "embed", "embed_faces" {
            scope: Infer, model: Some(DeviceTask::FaceEmbedding), quality: false, whole_images: true
        }
        /// Measures the quality of images and their faces.
        Quality = "quality", "measure_quality" { scope: Infer, model: None, quality: true, whole_images: false }
    }
    batched {
        /// Enhances images.
        Enhance = "enhance" { scope: Infer, models: [FaceDetection, FaceEmbedding] }
        /// Applies a list of operations to images.
        Process = "process" { scope: Infer, models: [FaceDetection] }
        /// Searches for a face of each image in a collection.
        Search = "search" { scope: Search, models: [FaceDetection, FaceEmbedding] }
    }
    single {
        /// Makes tensors of images.
        Preprocess = "preprocess" { scope: Infer }
        /// Compares two faces.
        Verify = "verify" { scope: Infer }
    }
}

impl ScanKind {
    /// Returns whether the operation reads the crops of faces, so that an aligned crop can stand for an image.
    pub(crate) fn reads_crops(self) -> bool {
        self.model().is_some() || self.measures_quality()
    }

    /// Returns the options of scans that the operation refuses.
    pub fn refused_options(self) -> Vec<&'static str> {
        let kind = (!self.has_whole_images()).then_some("kind");
        let aligned = (!self.reads_crops()).then_some("aligned");
        kind.into_iter().chain(aligned).collect()
    }
}

impl BatchOperation {
    /// Returns the name in requests and in the database.
    pub fn name(self) -> &'static str {
        self.operation().name()
    }

    /// Returns the operation with this name. `None` if this version has no such operation.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut operations = Self::ALL.into_iter();
        operations.find(|operation| operation.name() == name)
    }
}

impl From<BatchOperation> for &'static str {
    fn from(operation: BatchOperation) -> Self {
        operation.name()
    }
}

impl TryFrom<String> for BatchOperation {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::from_name(&name).ok_or_else(|| format!("must be one of {}", names()))
    }
}

impl PartialSchema for BatchOperation {
    fn schema() -> RefOr<Schema> {
        let operation = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(Self::ALL.map(Self::name)))
            .description(Some("The operation of a batch."));
        operation.into()
    }
}

impl ToSchema for BatchOperation {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_serialized_form_of_an_operation_is_its_name() {
        for kind in ScanKind::ALL {
            let name = serde_json::to_value(kind).unwrap();
            assert_eq!(name, kind.operation().name());
        }
        for operation in BatchOperation::ALL {
            let name = serde_json::to_value(operation).unwrap();
            assert_eq!(name, operation.name());
            let read: BatchOperation = serde_json::from_value(name).unwrap();
            assert_eq!(read, operation);
        }
    }

    #[test]
    fn names_are_unique() {
        let names: BTreeSet<_> = Operation::ALL.map(Operation::name).into();
        assert_eq!(names.len(), Operation::ALL.len());
    }
}
