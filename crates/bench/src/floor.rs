//! `facescan-bench floor`: what decoding and the models alone take on every core.
//!
//! No server over the same models and decoders answers faster than this, unless it runs rows in batches that cost less
//! than the rows alone.

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

use crate::{Settings, maths::Percentiles, plots::Plots, workload::Workload};
pub use work::Floor;

mod sessions;
mod work;

/// What is run on how many threads.
#[derive(Debug, Args)]
pub struct FloorArgs {
    /// Threads, each with sessions of its own; one per core where nothing is said.
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
    /// Threads that worked.
    pub threads: usize,
    /// Pictures a second, of all threads.
    pub throughput: f64,
    /// The time of a picture.
    pub latency_ms: Option<Percentiles>,
    /// The parts of that time.
    pub shares: Shares,
    /// Faces in each picture, by the order of the pictures.
    pub faces: Vec<usize>,
}

/// Parts of a whole, which sum to one.
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
/// When a picture or a model cannot be used, or the report cannot be written.
pub fn run(settings: &Settings, args: &FloorArgs) -> anyhow::Result<ExitCode> {
    let pictures = args.workload.load()?;
    let workload = &args.workload;
    let figures = run_to_end(async {
        Floor::prepare(&settings.config, workload, &pictures, args.threads)
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
        table.row(&[&"pictures a second", &figure(self.throughput)]);
        if let Some(latency) = &self.latency_ms {
            table.row(&[&"p50 of a picture", &millis(latency.p50)]);
            table.row(&[&"p99 of a picture", &millis(latency.p99)]);
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
