//! `facescan process` and `facescan anonymize`: apply a list of operations to files.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use clap::Args;
use facescan_config::{Config, DetectionRequest};
use facescan_fields::groups::checked;
use facescan_pipeline::{
    context::RequestContext,
    operations::process::{
        request::{ProcessPlan, ProcessRequest},
        result::{ProcessedFormat, StepReport},
        step::{Method, Step},
    },
    results::ErrorEntry,
};
use serde::Serialize;

use super::{
    files::Found,
    image_command::{self, for_each_image, read},
    runtime::success_if,
};
use crate::{
    app::App,
    http::error::{ApiError, entry_in_full},
};

/// The input images and the output folder.
#[derive(Debug, Args)]
struct Files {
    /// Images, folders of images, or URLs (URLs need `urls.enabled`).
    #[arg(required = true, value_name = "FILE|DIR|URL")]
    paths: Vec<PathBuf>,
    /// The folder for the results, which have the names of the images; it must not contain the images.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// The format of the results: jpeg, png, webp, avif or npy [default: png]
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    format: Option<ProcessedFormat>,
    #[command(flatten)]
    detection: DetectionRequest,
    /// The number of images that are processed at a time; 0 means the number of CPU workers plus one.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    jobs: usize,
}

/// The operations on images.
#[derive(Debug, Args)]
pub struct ProcessArgs {
    /// The operations as JSON, such as '[{"op":"resize","width":640}]'.
    #[arg(long, value_name = "JSON", value_parser = operations)]
    operations: Operations,
    #[command(flatten)]
    files: Files,
}

/// The way to hide faces.
#[derive(Debug, Args)]
pub struct AnonymizeArgs {
    /// How faces are hidden.
    #[arg(long, value_enum, default_value_t)]
    method: Method,
    /// How much to add on each side of a face, as a share of its box.
    #[arg(long, value_name = "SHARE", default_value_t = 0.2)]
    margin: f32,
    #[command(flatten)]
    files: Files,
}

/// A list in one argument.
#[derive(Clone, Debug)]
struct Operations(Vec<Step>);

fn operations(text: &str) -> Result<Operations, String> {
    serde_json::from_str(text)
        .map(Operations)
        .map_err(|error| error.to_string())
}

fn format(text: &str) -> Result<ProcessedFormat, String> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
        .map_err(|_| "must be one of jpeg, png, webp, avif and npy".to_owned())
}

/// A line of the output.
#[derive(Serialize)]
struct Line {
    path: String,
    #[serde(flatten)]
    outcome: Outcome,
}

#[derive(Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum Outcome {
    Ok {
        written: Vec<String>,
        steps: Vec<StepReport>,
    },
    Error {
        error: ErrorEntry,
    },
}

/// Runs `facescan process`.
///
/// # Errors
/// Returns an error if the start fails or the output cannot be written. A failed image is a result and not an error.
pub fn run(config: Config, args: ProcessArgs) -> anyhow::Result<ExitCode> {
    process(config, args.operations.0, &args.files)
}

/// Runs `facescan anonymize`.
pub fn anonymize(config: Config, args: AnonymizeArgs) -> anyhow::Result<ExitCode> {
    let step = Step::Anonymize {
        method: args.method,
        margin: args.margin,
        color: [0; 3],
    };
    process(config, vec![step], &args.files)
}

fn process(config: Config, operations: Vec<Step>, files: &Files) -> anyhow::Result<ExitCode> {
    let mut request = checked(ProcessRequest {
        operations,
        format: files.format,
        detection: files.detection.clone(),
        ..ProcessRequest::default()
    })?;
    let failed = image_command::run(config, &files.paths, async |app| {
        let thresholds = &app.pipeline.models.detector.spec.thresholds;
        let plan = request.resolve(&app.config, thresholds, 0)?;
        process_all(app, files, &plan).await
    })?;
    Ok(success_if(failed == 0))
}

/// Processes the files in the order of discovery. Returns the number of failures.
async fn process_all(app: &App, files: &Files, plan: &ProcessPlan) -> anyhow::Result<usize> {
    let mut failed = 0;
    let process = async |context: &RequestContext, found: &Found| {
        process_file(app, context, found, &files.out, plan).await
    };
    for_each_image(
        app,
        &files.paths,
        files.jobs,
        process,
        |progress, found, outcome| {
            let outcome = outcome.unwrap_or_else(|error| {
                failed += 1;
                Outcome::Error { error }
            });
            let line = Line {
                path: found.name(),
                outcome,
            };
            let line = serde_json::to_string(&line).context("writing a result")?;
            progress
                .suspend(|| writeln!(std::io::stdout(), "{line}"))
                .context("writing to standard output")
        },
    )
    .await?;
    Ok(failed)
}

async fn process_file(
    app: &App,
    context: &RequestContext,
    found: &Found,
    out: &Path,
    plan: &ProcessPlan,
) -> Result<Outcome, ErrorEntry> {
    let image = read(app, found).await?;
    let processed = app
        .runner
        .run(context, image, &plan.with_new_budget())
        .await
        .map_err(entry_in_full)?;
    let images = processed.result.processed;
    let several = images.len() > 1;
    let mut written = Vec::with_capacity(images.len());
    for (index, image) in images.into_iter().enumerate() {
        let number = several.then_some(index);
        let target = target(out, &found.relative, number, image.format);
        write(&target, &found.path, &image.data)
            .await
            .map_err(|error| {
                entry_in_full(ApiError::Internal(format!(
                    "writing {}: {error}",
                    target.display()
                )))
            })?;
        written.push(target.display().to_string());
    }
    Ok(Outcome::Ok {
        written,
        steps: processed.result.steps,
    })
}

/// Returns the path of a result. The extension of the format is appended to the name, so that the results of a.png and
/// a.jpg differ. A file that already has the extension keeps its name.
fn target(out: &Path, relative: &Path, number: Option<usize>, format: ProcessedFormat) -> PathBuf {
    let ending = format.ending();
    let mut name = out.join(relative).into_os_string();
    if let Some(number) = number {
        name.push(format!(".{number}"));
    }
    let is_there = number.is_none() && relative.extension().is_some_and(|has| has == ending);
    if !is_there {
        name.push(format!(".{ending}"));
    }
    name.into()
}

/// Writes a result. It never overwrites the source image.
async fn write(target: &Path, source: &Path, data: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = target.parent() {
        tokio::fs::create_dir_all(folder).await?;
    }
    let is_same = match (
        tokio::fs::canonicalize(target).await,
        tokio::fs::canonicalize(source).await,
    ) {
        (Ok(target), Ok(source)) => target == source,
        _ => false,
    };
    if is_same {
        return Err(std::io::Error::other(
            "the result would overwrite the image; choose another folder",
        ));
    }
    tokio::fs::write(target, data).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_distinct_names() {
        let name = |relative: &str, number, format| {
            target(Path::new("out"), Path::new(relative), number, format)
                .display()
                .to_string()
        };
        assert_eq!(name("a/b.png", None, ProcessedFormat::Png), "out/a/b.png");
        assert_eq!(name("b.jpg", None, ProcessedFormat::Png), "out/b.jpg.png");
        assert_eq!(
            name("b.png", Some(2), ProcessedFormat::Png),
            "out/b.png.2.png"
        );
        assert_eq!(name("b.jpg", None, ProcessedFormat::Jpeg), "out/b.jpg");
    }
}
