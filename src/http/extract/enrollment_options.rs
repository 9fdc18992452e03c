//! The options of enrollments as requests send them.

use facescan_config::DetectionRequest;
use facescan_fields::request_options;
use facescan_imaging::quality::acceptance::Preset;
use facescan_pipeline::{
    admission::Priority,
    core::options::{RequestOptions, RunRequest},
};
use facescan_recognition::verify::{FaceChoice, VerifyRequest};

request_options! {
    /// Options of an enrollment.
    #[schema(as = EnrollOptions)]
    pub struct EnrollRequest {
        /// Which face of an image with several faces is enrolled. Without it such an image is rejected.
        pub face: Option<FaceChoice>,
        /// Whether a face is enrolled that is similar to a face of another subject. By default it is rejected.
        pub allow_conflicts: Option<bool>,
        /// Whether a face of low quality is enrolled. By default the preset decides.
        pub allow_low_quality: Option<bool>,
        /// The preset whose thresholds decide the quality; by default `enroll`.
        pub preset: Option<Preset>,
        /// Whether the images are aligned 112×112 crops. They are not searched for faces.
        pub aligned: Option<bool>,
    }
    with {
        detection: DetectionRequest only [min_score, det_size],
        run: RunRequest only [priority],
    }
}

impl RequestOptions for EnrollRequest {
    fn priority(&self) -> Option<Priority> {
        self.run.priority
    }
}

impl EnrollRequest {
    pub(in crate::http) fn scan_options(&self) -> VerifyRequest {
        VerifyRequest {
            face: self.face,
            detection: self.detection.clone(),
            aligned: self.aligned,
            preset: Some(self.preset.unwrap_or(Preset::Enroll)),
            run: self.run.clone(),
            ..VerifyRequest::default()
        }
    }
}

request_options! {
    /// Options of an enrollment in a library.
    #[schema(as = LibraryOptions)]
    pub struct LibraryRequest {
        /// The preset whose thresholds decide which faces can found a person; by default `search`.
        pub preset: Option<Preset>,
        /// Whether the images are aligned 112×112 crops. They are not searched for faces.
        pub aligned: Option<bool>,
    }
    with {
        detection: DetectionRequest only [min_score, det_size],
        run: RunRequest only [priority],
    }
}

impl RequestOptions for LibraryRequest {
    fn priority(&self) -> Option<Priority> {
        self.run.priority
    }
}

impl LibraryRequest {
    pub(in crate::http) fn scan_options(&self) -> VerifyRequest {
        VerifyRequest {
            detection: self.detection.clone(),
            aligned: self.aligned,
            preset: Some(self.preset.unwrap_or(Preset::Search)),
            run: self.run.clone(),
            ..VerifyRequest::default()
        }
    }
}
