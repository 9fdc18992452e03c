//! The images of a folder whose faces are embedded and not stored.

use std::path::PathBuf;

use clap::Args;
use facescan_config::{DetSize, DetectionRequest};
use facescan_recognition::verify::VerifyRequest;

use super::scan::in_work;
use crate::app::App;

/// The images, and how their faces are found.
#[derive(Debug, Args)]
pub struct FolderArgs {
    /// A folder with images. Where people are known, it has a folder for each person.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The longer side of the detector's input in pixels, a multiple of 32, or `fit` to enlarge no image.
    #[arg(long, value_name = "PIXELS")]
    det_size: Option<DetSize>,
    /// The images are aligned crops of 112×112 pixels.
    #[arg(long)]
    aligned: bool,
    /// The number of images that are processed at a time [default: enough to keep the processor busy].
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 0,
        hide_default_value = true
    )]
    jobs: usize,
}

impl FolderArgs {
    /// Returns the options of the scans, with the other ones as they are by default.
    pub fn request(&self) -> VerifyRequest {
        VerifyRequest {
            detection: DetectionRequest {
                det_size: self.det_size,
                ..DetectionRequest::default()
            },
            aligned: Some(self.aligned),
            ..VerifyRequest::default()
        }
    }

    /// Returns the number of images that are processed at a time.
    pub fn in_work(&self, app: &App) -> usize {
        in_work(app, self.jobs)
    }
}
