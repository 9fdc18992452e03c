//! `facescan encode-image`: encodes one image for another process of this program.

use std::{
    io::{self, Read as _, Write as _},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use facescan_imaging::encode::{OutputFormat, encode};
use image::RgbImage;

/// The arguments of `facescan encode-image`.
#[derive(Debug, Args)]
pub struct EncodeImageArgs {
    #[arg(long)]
    format: SlowFormat,
    #[arg(long)]
    width: u32,
    #[arg(long)]
    height: u32,
}

/// The formats whose encoders cannot be stopped.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum SlowFormat {
    Webp,
    Avif,
}

/// Encodes the samples of standard input.
pub fn run(args: &EncodeImageArgs) -> anyhow::Result<ExitCode> {
    let output = match args.format {
        SlowFormat::Webp => OutputFormat::Webp,
        SlowFormat::Avif => OutputFormat::Avif,
    };
    output.check_size((args.width, args.height))?;
    let mut image = RgbImage::new(args.width, args.height);
    io::stdin()
        .read_exact(&mut image)
        .context("reading the samples")?;
    io::stdout().write_all(&encode(&image, output)?)?;
    Ok(ExitCode::SUCCESS)
}
