//! The device tasks. Each one has its own device toggle.

use serde::Serialize;

use crate::{
    graphs::{ImageGraph, enhance::Steps, process::Rounding},
    registry::Role,
};

/// The work of a device task on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// One model of this role.
    Model(Role),
    /// The graphs of this work on images, each in a session of its own.
    Graphs(ImageWork),
}

/// Work on images that this server builds the graphs of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageWork {
    /// Resizing, blurring and normalizing.
    Processing,
    /// Upscaling and sharpening.
    Enhancement,
    /// Measuring quality.
    Quality,
}

impl ImageWork {
    /// Returns the graphs.
    pub fn graphs(self) -> Vec<ImageGraph> {
        match self {
            Self::Processing => vec![
                ImageGraph::BilinearTwoTap,
                ImageGraph::Bilinear(Rounding::EachPass),
                ImageGraph::Blur,
            ],
            Self::Enhancement => Steps::ALL.map(ImageGraph::Enhance).to_vec(),
            Self::Quality => vec![ImageGraph::Quality],
        }
    }
}

/// Declares each device task once. The enum, the list of all tasks, their names and workloads follow from it.
macro_rules! device_tasks {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $workload:expr;)+) => {
        /// A device task: work with its own device toggle.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize,
        )]
        #[serde(rename_all = "snake_case")]
        pub enum DeviceTask {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DeviceTask {
            /// Every task, in the order of reports.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name in responses, settings, metric labels and logs.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns what the task runs on a device.
            pub fn workload(self) -> Workload {
                match self {
                    $(Self::$variant => $workload,)+
                }
            }
        }
    };
}

device_tasks! {
    /// Finds faces.
    FaceDetection = "face_detection", Workload::Model(Role::Detector);
    /// Computes the embedding of an aligned face crop.
    FaceEmbedding = "face_embedding", Workload::Model(Role::Embedder);
    /// Resizes, blurs and normalizes whole images.
    ImageProcessing = "image_processing", Workload::Graphs(ImageWork::Processing);
    /// Upscales and sharpens.
    ImageEnhancement = "image_enhancement", Workload::Graphs(ImageWork::Enhancement);
    /// Measures blur, brightness, contrast, sharpness and pose.
    QualityChecks = "quality_checks", Workload::Graphs(ImageWork::Quality);
    /// Computes the embedding of a whole image, if `models.encoder` is set.
    ImageEmbedding = "image_embedding", Workload::Model(Role::Encoder);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_serialized_form_of_an_operation_is_its_name() {
        for task in DeviceTask::ALL {
            let json = serde_json::to_value(task).unwrap();
            assert_eq!(json, task.name());
        }
    }

    #[test]
    fn names_are_unique_and_no_workload_is_empty_or_has_a_graph_twice() {
        let names: BTreeSet<_> = DeviceTask::ALL.map(DeviceTask::name).into();
        assert_eq!(names.len(), DeviceTask::ALL.len());
        for task in DeviceTask::ALL {
            if let Workload::Graphs(work) = task.workload() {
                let graphs = work.graphs();
                let names: BTreeSet<_> = graphs.iter().map(|graph| graph.name()).collect();
                assert_eq!(names.len(), graphs.len());
                assert!(!graphs.is_empty());
            }
        }
    }
}
