//! `facescan precision`: the differences between the resize profiles, and between the device and the CPU, on given
//! images.

use std::{path::PathBuf, process::ExitCode, sync::Arc};

use anyhow::Context;
use clap::Args;
use comfy_table::{ContentArrangement, Table, presets::NOTHING};
use facescan_config::Config;
use facescan_pipeline::models::row_job::RowJob;
use image::RgbImage;
use serde::Serialize;

use super::{
    files,
    image_command::{self, read},
};
use crate::app::App;
use differences::Differences;
use facescan_imaging::{
    decode::decode,
    preprocess::{Preprocess, Profile},
};

mod differences;

/// The images to compare with.
#[derive(Debug, Args)]
pub struct PrecisionArgs {
    /// Images, folders of images, or URLs (URLs need `urls.enabled`).
    #[arg(required = true, value_name = "FILE|DIR|URL")]
    paths: Vec<PathBuf>,
    /// The height of the output in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = 224)]
    height: u32,
    /// The width of the output in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = 224)]
    width: u32,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Write a histogram of the differences as SVG.
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

/// The differences between two ways of resizing.
#[derive(Serialize)]
struct Compared {
    /// The first way, such as `torchvision`.
    first: String,
    /// The second way, such as `opencv` or `torchvision on cuda:0`.
    second: String,
    #[serde(flatten)]
    differences: differences::Summary,
}

/// Compares the ways of resizing and prints the differences.
pub fn run(config: Config, args: &PrecisionArgs) -> anyhow::Result<ExitCode> {
    let sides = 1..=facescan_imaging::preprocess::MAX_SIDE;
    anyhow::ensure!(
        sides.contains(&args.height) && sides.contains(&args.width),
        "--height and --width: must be from 1 to {}",
        sides.end()
    );
    image_command::run(config, &args.paths, async |app| {
        let found = compare_all(app, args).await?;
        if let Some(path) = &args.plot {
            differences::plot(path, &found)?;
        }
        let rows: Vec<Compared> = found
            .into_iter()
            .map(|pair| Compared {
                first: pair.first,
                second: pair.second,
                differences: pair.differences.summary(),
            })
            .collect();
        if args.json {
            println!("{}", serde_json::to_string_pretty(&rows)?);
        } else {
            println!("{}", table(&rows));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Two ways of resizing and their differences.
struct Pair {
    first: String,
    second: String,
    differences: Differences,
}

async fn compare_all(app: &App, args: &PrecisionArgs) -> anyhow::Result<Vec<Pair>> {
    let mut pairs: Vec<Pair> = Vec::new();
    for found in files::images(&args.paths) {
        let path = found.name();
        let image = match read(app, &found).await {
            Ok(image) => image,
            Err(error) => anyhow::bail!("{path}: {}", error.detail),
        };
        let decoded = decode(&image.bytes, &app.pipeline.decoding).with_context(|| path)?;
        let pixels = Arc::new(decoded.pixels);
        let ways = ways(app, &pixels, args).await;
        for (index, first) in ways.iter().enumerate() {
            let others = ways[index + 1..].iter();
            for second in others.filter(|second| first.is_compared_with(second)) {
                let (name, other_name) = (first.name(), second.name());
                let known = pairs
                    .iter()
                    .position(|pair| pair.first == name && pair.second == other_name);
                let at = known.unwrap_or_else(|| {
                    pairs.push(Pair {
                        first: name,
                        second: other_name,
                        differences: Differences::default(),
                    });
                    pairs.len() - 1
                });
                pairs[at].differences.add(&first.levels, &second.levels);
            }
        }
    }
    anyhow::ensure!(
        !pairs.is_empty(),
        "there are no images to compare; name some"
    );
    Ok(pairs)
}

/// An image that was resized in one way.
struct Way {
    profile: Profile,
    /// `None` is the CPU.
    device: Option<String>,
    levels: Vec<f32>,
}

impl Way {
    fn name(&self) -> String {
        let profile = self.profile.name();
        match &self.device {
            Some(device) => format!("{profile} on {device}"),
            None => profile.to_owned(),
        }
    }

    /// A device is compared only with the CPU, by the same profile.
    fn is_compared_with(&self, second: &Self) -> bool {
        self.device.is_none() && (second.device.is_none() || self.profile == second.profile)
    }
}

/// Returns the image resized by every profile on the CPU, then on the device, in levels.
async fn ways(app: &App, image: &Arc<RgbImage>, args: &PrecisionArgs) -> Vec<Way> {
    let job = |profile| {
        let preprocess = Preprocess {
            height: args.height,
            width: args.width,
            profile,
            mean: [0.0; 3],
            std: [1.0 / 255.0; 3],
            ..Preprocess::default()
        };
        RowJob::new(image, &preprocess)
    };
    let mut ways: Vec<Way> = Profile::ALL
        .map(|profile| Way {
            profile,
            device: None,
            levels: job(profile).fill(),
        })
        .into();
    let preprocessing = &app.pipeline.preprocessing;
    if preprocessing.executor.has_device() {
        for profile in Profile::ALL {
            let job = job(profile);
            if job.has_graph() {
                let done = preprocessing.executor.run(Arc::new(job)).await;
                if done.run.fallback.is_none() {
                    let device = preprocessing.assignment.state().active;
                    ways.push(Way {
                        profile,
                        device: Some(device),
                        levels: done.output,
                    });
                }
            }
        }
    }
    ways
}

fn table(rows: &[Compared]) -> Table {
    let mut table = Table::new();
    table
        .load_style(NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header([
            "",
            "AND",
            "MAX",
            "MEAN",
            "MEDIAN",
            "EQUAL",
            "MAX IN [-1, 1]",
            "MEAN IN [-1, 1]",
        ]);
    for row in rows {
        let found = &row.differences;
        table.add_row([
            row.first.clone(),
            row.second.clone(),
            format!("{:.4}", found.max_levels),
            format!("{:.4}", found.mean_levels),
            format!("{:.4}", found.median_levels),
            format!("{:.2} %", found.equal_share * 100.0),
            format!("{:.5}", found.max_units),
            format!("{:.6}", found.mean_units),
        ]);
    }
    table
}
