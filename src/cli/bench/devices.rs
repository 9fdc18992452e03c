//! `facescan bench devices`: measures what each operation's toggle changes on this machine.
//!
//! This process measures two applications with the same settings, one after the other, without HTTP and without a
//! database. The first has every toggle off, the second has every toggle on. The time of a batch ends when all its
//! results are in the host's memory, so no work is left on a device when the clock is read.

use std::{fmt, num::NonZeroUsize, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{
    Args,
    builder::{PossibleValuesParser, TypedValueParser},
};
use facescan_config::{Config, Models};
use serde::Serialize;

use super::{
    images::{Image, load_images},
    report, run_to_end,
};
use crate::cli::runtime::{backend, success_if};
use facescan_inference::device_task::{DeviceTask, Workload};
use figures::{DevicesFigures, Toggle};
use material::Size;
use session::Session;

mod analysis;
mod batch;
mod figures;
mod material;
mod render;
mod session;

/// The maximum number of images in a batch.
const MAX_IMAGES: usize = 1024;

/// The subject and the length of the measurement.
#[derive(Debug, Args, Serialize)]
pub struct DevicesArgs {
    /// An operation to measure; can be given several times [default: all operations]
    #[arg(long = "operation", value_name = "OPERATION", value_delimiter = ',', value_parser = operation_parser())]
    operations: Vec<DeviceTask>,
    /// The long side of the images: 320, 1024 or 2560 pixels; can be given several times [default: all sizes]
    #[arg(
        long = "image-size",
        value_name = "SIZE",
        value_delimiter = ',',
        value_enum
    )]
    image_sizes: Vec<Size>,
    /// Measure only with the toggles on. The report then has no comparison.
    #[arg(long, conflicts_with = "no_gpu")]
    gpu: bool,
    /// Measure only with the toggles off.
    #[arg(long)]
    no_gpu: bool,
    /// The number of images, or faces, that are processed at the same time.
    #[arg(long, default_value = "8", value_name = "COUNT", value_parser = batch_size)]
    batch_size: NonZeroUsize,
    /// The number of timed batches.
    #[arg(long, default_value = "20", value_name = "COUNT")]
    iterations: NonZeroUsize,
    /// The number of batches that run first and are reported separately.
    #[arg(long, default_value = "3", value_name = "COUNT")]
    warm_up: NonZeroUsize,
    /// Images, or folders of images, with faces. They are resized before the measurement.
    #[arg(long, num_args = 1.., value_name = "FILE|DIR", default_value = ".runtime/pictures")]
    images: Vec<PathBuf>,
    /// Write report.json, report.md and plots to this folder.
    #[arg(long, value_name = "DIR")]
    #[serde(skip)]
    output: Option<PathBuf>,
}

fn operation_parser() -> impl TypedValueParser<Value = DeviceTask> {
    PossibleValuesParser::new(DeviceTask::ALL.map(DeviceTask::name)).try_map(|text| {
        DeviceTask::ALL
            .into_iter()
            .find(|operation| operation.name() == text)
            .ok_or("is not an operation")
    })
}

fn batch_size(text: &str) -> Result<NonZeroUsize, String> {
    text.parse()
        .ok()
        .filter(|size: &NonZeroUsize| size.get() <= MAX_IMAGES)
        .ok_or_else(|| format!("must be a whole number from 1 to {MAX_IMAGES}"))
}

impl fmt::Display for DevicesArgs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{} batches of {} each after {} warm-up batches",
            self.iterations, self.batch_size, self.warm_up
        )
    }
}

impl DevicesArgs {
    /// Returns the operations to measure. An operation whose model is not configured is included only if the command line
    /// names it, and then fails.
    fn operations(&self, models: &Models) -> Vec<DeviceTask> {
        let mut operations = distinct(&self.operations, &DeviceTask::ALL);
        let has_model = |operation: &DeviceTask| match operation.workload() {
            Workload::Model(role) => models.id(role).is_some(),
            Workload::Graphs(_) => true,
        };
        operations.retain(|operation| has_model(operation) || !self.operations.is_empty());
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

/// Returns the items of `all` that are in `asked`, in the order of `all`. Returns all items if `asked` is empty.
fn distinct<T: Copy + PartialEq>(asked: &[T], all: &[T]) -> Vec<T> {
    let is_asked = |one: &&T| asked.is_empty() || asked.contains(one);
    all.iter().filter(is_asked).copied().collect()
}

/// Runs the measurement and prints the table.
pub fn run(config: &Config, args: &DevicesArgs) -> anyhow::Result<ExitCode> {
    let images = load_images(&args.images)?;
    let figures = run_to_end(measure(config, args, &images))?;
    let is_whole = figures.cells().all(|cell| cell.errors.is_empty());
    let folder = args.output.as_deref();
    report::publish(args, &figures, &figures.markdown(), folder)?;
    if let Some(folder) = folder {
        figures.draw(folder).context("drawing the plots")?;
    }
    Ok(success_if(is_whole))
}

async fn measure(
    config: &Config,
    args: &DevicesArgs,
    images: &[Image],
) -> anyhow::Result<DevicesFigures> {
    let backend = backend(config)?;
    let mut figures = DevicesFigures::default();
    let mut materials = Vec::new();
    for &toggle in args.toggles() {
        let session = Session::start(config, toggle, args, &backend)
            .await
            .with_context(|| format!("starting with {}", toggle.name()))?;
        if materials.is_empty() {
            // Both applications work on the same pixels. The detector of the first one has found the faces.
            materials = session.materials(images, &args.sizes()).await?;
        }
        for material in &materials {
            for operation in args.operations(&config.models) {
                let cell = session.measure(operation, material).await?;
                eprintln!(
                    "{} {} {}: {} ms per batch on {}",
                    toggle.name(),
                    operation.name(),
                    material.size.name(),
                    report::figure(cell.times.mean_time_ms),
                    cell.active
                );
                figures.add(operation, material.size, toggle, cell);
            }
        }
        figures.applications.insert(toggle, session.stop());
    }
    figures.analysis = analysis::analyze(&figures.benchmark_results);
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requested_items_are_distinct_and_in_order() {
        assert_eq!(
            distinct(&[Size::Large, Size::Small, Size::Large], &Size::ALL),
            [Size::Small, Size::Large]
        );
        assert_eq!(distinct(&[], &Size::ALL), Size::ALL);
    }
}
