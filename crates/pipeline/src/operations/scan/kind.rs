//! The operations that are scans, declared once.

use facescan_inference::device_task::DeviceTask;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Declares each scan once. The enum, the list of all scans, their names and tasks follow from it.
///
/// `task` is what runs on each face, and `measures_image` says whether the quality of the whole image is measured, too.
macro_rules! scan_kinds {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident = $name:literal { task: $task:expr, measures_image: $measures_image:literal }
    )+) => {
        /// The operation of a scan.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "lowercase")]
        pub enum ScanKind {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl ScanKind {
            /// Every scan.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name that responses and the database use. The route has it, too.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the device task on each face that decides this kind, if there is one.
            pub(crate) fn face_task(self) -> Option<DeviceTask> {
                match self {
                    $(Self::$variant => $task,)+
                }
            }

            /// Returns whether the quality of the whole image is measured.
            pub(crate) fn measures_image(self) -> bool {
                match self {
                    $(Self::$variant => $measures_image,)+
                }
            }
        }
    };
}

scan_kinds! {
    /// Find faces.
    Detect = "detect" { task: None, measures_image: false }
    /// Find faces and compute the vector of each.
    Embed = "embed" { task: Some(DeviceTask::FaceEmbedding), measures_image: false }
    /// Find faces and measure the quality of the faces and of the image.
    Quality = "quality" { task: Some(DeviceTask::QualityChecks), measures_image: true }
}

/// The subject of the vectors of `/embed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EmbedKind {
    /// Each face.
    #[default]
    Face,
    /// The whole image.
    Image,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serialized_form_of_a_scan_is_its_name() {
        for kind in ScanKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
        }
    }
}
