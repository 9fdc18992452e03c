//! The images of a folder whose faces are embedded and not stored.

use std::{path::PathBuf, slice};

use clap::Args;
use facescan_config::{DetSize, DetectionRequest};
use facescan_pipeline::{context::RequestContext, core::scan::Scan};
use facescan_recognition::verify::{VerifyPlan, VerifyRequest};
use indicatif::ProgressBar;

use super::{files::Found, image_command::for_each_image, verify::scan};
use crate::app::App;

/// The images, and how their faces are found.
#[derive(Debug, Args)]
pub struct FolderArgs {
    /// A folder with images. Where people are known, it has a folder for each person.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
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

    /// Returns the folder, as the paths of a command.
    pub(super) fn paths(&self) -> &[PathBuf] {
        slice::from_ref(&self.dir)
    }

    /// Scans every image, and calls `each` with the image and its scan, in the order of the names.
    ///
    /// # Errors
    /// Returns the first error of `each`.
    pub(super) async fn scan_each(
        &self,
        app: &App,
        plan: &VerifyPlan,
        mut each: impl FnMut(&ProgressBar, &Found, anyhow::Result<Scan>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let scan =
            async |context: &RequestContext, found: &Found| scan(app, context, plan, found).await;
        for_each_image(
            app,
            self.paths(),
            self.jobs,
            scan,
            |progress, found, scan| each(progress, &found, scan),
        )
        .await
    }
}
