//! `facescan bench devices`: what each operation's toggle changes on this machine.
//!
//! Two applications of the same settings are measured in this process one after the other, without HTTP and without a
//! database: one with every toggle off, one with every toggle on. A batch's time ends when all its results are in the
//! host's memory, so nothing is still running on a device when the clock is read.

use std::{fmt, num::NonZeroUsize, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use serde::Serialize;

use super::{
    pictures::{Picture, load_pictures},
    report, run_to_end,
};
use crate::config::Config;
use facescan_inference::operation::Operation;
use figures::{DevicesFigures, Toggle};
use material::Size;
use session::Session;

mod analysis;
mod batch;
mod figures;
mod material;
mod render;
mod session;

/// The most pictures in a batch.
const MOST_PICTURES: usize = 1024;

/// What is measured, and how often.
#[derive(Debug, Args, Serialize)]
pub struct DevicesArgs {
    /// An operation to measure; can be given several times. All of them where nothing is said.
    #[arg(long = "operation", value_name = "OPERATION", value_delimiter = ',', value_parser = operation_parser())]
    operations: Vec<Operation>,
    /// The long side of the pictures: 320, 1024 or 2560 pixels; can be given several times. All of them where nothing
    /// is said.
    #[arg(
        long = "image-size",
        value_name = "SIZE",
        value_delimiter = ',',
        value_enum
    )]
    image_sizes: Vec<Size>,
    /// Measure with the toggles on only, which leaves nothing to compare with.
    #[arg(long, conflicts_with = "no_gpu")]
    gpu: bool,
    /// Measure with the toggles off only.
    #[arg(long)]
    no_gpu: bool,
    /// How many pictures, or faces, are sent at the same time.
    #[arg(long, default_value = "8", value_name = "COUNT", value_parser = batch_size)]
    batch_size: NonZeroUsize,
    /// How many batches are timed.
    #[arg(long, default_value = "20", value_name = "COUNT")]
    iterations: NonZeroUsize,
    /// How many batches are run before, and reported apart.
    #[arg(long, default_value = "3", value_name = "COUNT")]
    warm_up: NonZeroUsize,
    /// Pictures, or folders of them, with faces. They are resized before anything is timed.
    #[arg(long, num_args = 1.., value_name = "FILE|DIR", default_value = ".runtime/pictures")]
    pictures: Vec<PathBuf>,
    /// Write report.json, report.md and plots to this folder.
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    output: Option<PathBuf>,
}

fn operation_parser() -> impl TypedValueParser<Value = Operation> {
    PossibleValuesParser::new(Operation::ALL.map(Operation::name)).try_map(|text| {
        Operation::ALL
            .into_iter()
            .find(|operation| operation.name() == text)
            .ok_or("is no operation")
    })
}

fn batch_size(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .ok()
        .filter(|size: &NonZeroUsize| size.get() <= MOST_PICTURES)
        .ok_or_else(|| format!("is a whole number from 1 to {MOST_PICTURES}"))
}

impl fmt::Display for DevicesArgs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} batches of {} each after {}",
            self.iterations, self.batch_size, self.warm_up
        )
    }
}

impl DevicesArgs {
    /// The operations that are measured: without an encoder, whole pictures are embedded only where that is asked for,
    /// and refused.
    fn operations(&self, has_encoder: bool) -> Vec<Operation> {
        let mut operations = distinct(&self.operations, &Operation::ALL);
        operations.retain(|operation| {
            *operation != Operation::ImageEmbedding || has_encoder || !self.operations.is_empty()
        });
        operations
    }

    fn sizes(&self) -> Vec<Size> {
        distinct(&self.image_sizes, &Size::ALL)
    }

    fn toggles(&self) -> &'static [Toggle] {
        match (self.gpu, self.no_gpu) {
            (true, _) => &[Toggle::On],
            (_, true) => &[Toggle::Off],
            _ => &[Toggle::Off, Toggle::On],
        }
    }
}

/// Those of `all` that were asked for, in the order of `all`; all of them where none was.
fn distinct<T: Copy + PartialEq>(asked: &[T], all: &[T]) -> Vec<T> {
    let is_asked = |one: &&T| asked.is_empty() || asked.contains(one);
    all.iter().filter(is_asked).copied().collect()
}

/// Measures what was asked for and prints the table.
///
/// # Errors
/// When the pictures have no faces, an application does not start, or the report cannot be written.
pub fn run(config: &Config, args: &DevicesArgs) -> anyhow::Result<ExitCode> {
    let pictures = load_pictures(&args.pictures)?;
    let figures = run_to_end(measure(config, args, &pictures))?;
    let is_whole = figures.cells().all(|cell| cell.errors.is_empty());
    report::publish(args, &figures, args.output.as_deref())?;
    Ok(if is_whole {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn measure(
    config: &Config,
    args: &DevicesArgs,
    pictures: &[Picture],
) -> anyhow::Result<DevicesFigures> {
    let backend = crate::cli::runtime::backend(config)?;
    let mut figures = DevicesFigures::default();
    let mut materials = Vec::new();
    for &toggle in args.toggles() {
        let session = Session::start(config, toggle, args, &backend)
            .await
            .with_context(|| format!("starting with {}", toggle.name()))?;
        if materials.is_empty() {
            // Both applications work on the same pixels, which the first one's detector has found the faces in.
            materials = session.materials(pictures, &args.sizes()).await?;
        }
        for material in &materials {
            for operation in args.operations(config.models.encoder.is_some()) {
                let cell = session.measure(operation, material).await?;
                eprintln!(
                    "{} {} {}: {} a batch on {}",
                    toggle.name(),
                    operation.name(),
                    material.size.name(),
                    report::millis(cell.times.mean_time_ms),
                    cell.active
                );
                figures.add(operation, material.size, toggle, cell);
            }
        }
        figures.applications.insert(toggle, session.stop());
    }
    figures.conclude();
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_comes_once_and_in_order() {
        assert_eq!(
            distinct(&[Size::Large, Size::Small, Size::Large], &Size::ALL),
            [Size::Small, Size::Large]
        );
        assert_eq!(distinct(&[], &Size::ALL), Size::ALL);
    }
}
