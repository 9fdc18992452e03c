//! `facescan-bench floor`: measures decoding and the models alone on every core.
//!
//! A server with the same models and decoders cannot be faster, unless a batch of rows costs less than the rows one by
//! one.

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use facescan::cli::bench::{
    report::{self, Render, Table, figure, millis, percent},
    run_to_end,
};
use serde::Serialize;

use crate::{Settings, math::Percentiles, plots::Plots, workload::Workload};
pub use work::Floor;

mod sessions;
mod work;

/// The subject and the threads of the measurement.
#[derive(Debug, Args)]
pub struct FloorArgs {
    /// The number of threads, each with its own sessions [default: one per core]
    #[arg(long, value_name = "COUNT")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    workload: Workload,
    /// Write report.json, report.md and plots to this folder.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

/// The figures of the floor.
#[derive(Clone, Debug, Serialize)]
pub struct FloorFigures {
    /// The number of threads.
    pub threads: usize,
    /// Images per second of all threads.
    pub throughput: f64,
    /// The time of one image.
    pub latency_ms: Option<Percentiles>,
    /// The shares of that time.
    pub shares: Shares,
    /// The number of faces in each image, in the order of the images.
    pub faces: Vec<usize>,
}

/// The shares of the work. They sum to one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Shares {
    /// Decoding.
    pub decode: f64,
    /// The detector.
    pub detect: f64,
    /// The embedder.
    pub embed: f64,
}

/// Measures the floor and prints it.
///
/// # Errors
/// Returns an error if an image or a model cannot be used, or the report cannot be written.
pub fn run(settings: &Settings, args: &FloorArgs) -> anyhow::Result<ExitCode> {
    let images = args.workload.load()?;
    let workload = &args.workload;
    let figures = run_to_end(async {
        Floor::prepare(&settings.config, workload, &images, args.threads)
            .await?
            .measure(workload)
            .await
    })?;
    report::publish(&args.workload, &figures, args.output.as_deref())?;
    Ok(ExitCode::SUCCESS)
}

impl Render for FloorFigures {
    fn markdown(&self) -> String {
        let mut table = Table::new(["", "value"]);
        table.row(&[&"threads", &self.threads]);
        table.row(&[&"images per second", &figure(self.throughput)]);
        if let Some(latency) = &self.latency_ms {
            table.row(&[&"p50 of an image", &millis(latency.p50)]);
            table.row(&[&"p99 of an image", &millis(latency.p99)]);
        }
        let Shares {
            decode,
            detect,
            embed,
        } = self.shares;
        for (name, share) in [("decode", decode), ("detect", detect), ("embed", embed)] {
            table.row(&[&name, &percent(share)]);
        }
        table.to_string()
    }

    fn draw(&self, folder: &Path) -> anyhow::Result<()> {
        let name = "floor".to_owned();
        Plots {
            latency: self
                .latency_ms
                .map(|latency| (name.clone(), latency))
                .into_iter()
                .collect(),
            throughput: vec![(name, self.throughput)],
            ..Plots::default()
        }
        .draw(folder)
    }
}
