//! `facescan demo`: finds the face in a picture that comes with the program.

use std::{path::PathBuf, process::ExitCode};

use anyhow::ensure;
use clap::Args;
use facescan_config::Config;
use facescan_pipeline::operation::ScanKind;

use super::scan::{self, ScanArgs};

/// A photograph of NASA, which is in the public domain.
const PICTURE: &str = "pictures/astronaut.png";

/// Where the copy with the drawn face goes.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Write a copy of the picture with its face drawn to this folder.
    #[arg(long, value_name = "DIR")]
    draw: Option<PathBuf>,
}

/// Finds the face, and prints a table.
///
/// # Errors
/// Returns an error if the picture is missing, or the errors of a scan.
pub fn run(config: Config, args: DemoArgs) -> anyhow::Result<ExitCode> {
    let picture = config.runtime.folder().join(PICTURE);
    ensure!(
        picture.is_file(),
        "there is no {}; a package of facescan has it, and `scripts/setup --tests` fetches it",
        picture.display()
    );
    let code = scan::run(
        config,
        &ScanArgs::demo(picture, args.draw),
        ScanKind::Detect,
    )?;
    eprintln!(
        "next: `facescan scan FOLDER` for your own images, and `facescan serve` for an HTTP server"
    );
    Ok(code)
}
