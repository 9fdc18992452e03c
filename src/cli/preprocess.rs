//! `facescan preprocess`: turns images into one tensor file, in constant memory.

use std::{
    fs::File,
    io::{BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Instant,
};

use anyhow::Context;
use clap::Args;
use facescan_config::{Config, Dtype};
use facescan_fields::groups::checked;
use facescan_pipeline::{
    operations::preprocess::{PreprocessPlan, PreprocessRequest},
    results::ErrorEntry,
};
use futures::StreamExt;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use super::{
    files,
    image_command::{self, progress_bar},
    runtime::success_if,
};
use crate::{app::App, preprocessor::Preprocessor};
use facescan_imaging::{
    npy,
    preprocess::{Layout, Mode, Profile},
};

/// The number of bytes that are reserved for the header. Its length is known only after the last row.
pub(super) const HEAD: usize = 512;

/// The images to preprocess, and the options.
#[derive(Debug, Args)]
pub struct PreprocessArgs {
    /// Images, folders of images, or URLs (URLs need `urls.enabled`).
    #[arg(required = true, value_name = "FILE|DIR|URL")]
    paths: Vec<PathBuf>,
    /// The tensor file; its name must end in .npy or .safetensors.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The height of the output in pixels.
    #[arg(long, value_name = "PIXELS")]
    height: Option<u32>,
    /// The width of the output in pixels.
    #[arg(long, value_name = "PIXELS")]
    width: Option<u32>,
    /// The library whose resize is matched: torchvision, jax, pil or opencv.
    #[arg(long, value_name = "NAME", value_parser = word::<Profile>)]
    profile: Option<Profile>,
    /// How an image of another aspect ratio is fitted: stretch, letterbox or center_crop.
    #[arg(long, value_name = "NAME", value_parser = word::<Mode>)]
    mode: Option<Mode>,
    /// The order of the dimensions: NCHW or NHWC.
    #[arg(long, value_name = "NAME", value_parser = word::<Layout>)]
    data_format: Option<Layout>,
    /// The type of the values: f32, f16 or bf16.
    #[arg(long, value_name = "NAME", value_parser = word::<Dtype>)]
    dtype: Option<Dtype>,
    /// The number of images that are loaded at a time.
    #[arg(long, value_name = "COUNT")]
    num_workers: Option<usize>,
    /// Fail if the platform in the settings is not available.
    #[arg(long)]
    strict: bool,
}

/// Parses a setting that is one of a few words.
fn word<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    serde_json::from_value(text.into()).map_err(|error| error.to_string())
}

/// The type of the tensor file.
#[derive(Clone, Copy)]
enum Kind {
    Npy,
    Safetensors,
}

impl Kind {
    fn from_path(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("npy") => Ok(Self::Npy),
            Some("safetensors") => Ok(Self::Safetensors),
            _ => anyhow::bail!("--out {}: must end in .npy or .safetensors", path.display()),
        }
    }

    /// Returns the header of a tensor of rows. It has the reserved length.
    fn head(self, plan: &PreprocessPlan, shape: &[usize]) -> anyhow::Result<Vec<u8>> {
        match self {
            Self::Npy => npy::header_of_len(plan.dtype.npy(), shape, HEAD)
                .context("the header is longer than the space that is reserved for it"),
            Self::Safetensors => {
                let bytes = shape.iter().product::<usize>() * plan.dtype.size();
                let dtype = match plan.dtype {
                    Dtype::F32 => "F32",
                    Dtype::F16 => "F16",
                    Dtype::Bf16 => "BF16",
                };
                let described = json!({
                    "__metadata__": {"profile": plan.preprocess.profile, "mode": plan.preprocess.mode, "data_format": plan.preprocess.layout},
                    "images": {"dtype": dtype, "shape": shape, "data_offsets": [0, bytes]},
                });
                let mut text = described.to_string();
                let reserved = HEAD - 8;
                anyhow::ensure!(
                    text.len() <= reserved,
                    "the header is longer than the space that is reserved for it"
                );
                // The format allows spaces after the header. They align the values.
                text.push_str(&" ".repeat(reserved - text.len()));
                Ok([(reserved as u64).to_le_bytes().as_slice(), text.as_bytes()].concat())
            }
        }
    }
}

/// A line of the index file.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<usize>,
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorEntry>,
}

/// Writes the tensor, and an index file with the image of each row and the images that failed.
///
/// # Errors
/// Returns an error if the start fails or a file cannot be written. A failed image is a line of the index and not an
/// error.
pub fn run(mut config: Config, args: &PreprocessArgs) -> anyhow::Result<ExitCode> {
    config.preprocess.strict |= args.strict;
    config.preprocess.num_workers = args.num_workers.unwrap_or(config.preprocess.num_workers);
    let kind = Kind::from_path(&args.out)?;
    let request = checked(PreprocessRequest {
        height: args.height,
        width: args.width,
        profile: args.profile,
        mode: args.mode,
        data_format: args.data_format,
        dtype: args.dtype,
        ..PreprocessRequest::default()
    })?;
    anyhow::ensure!(
        request.clone().resolve(&config)?.preprocess.mode != Mode::ShortSide,
        "mode short_side gives images of different aspect ratios different shapes, which do not fit one tensor; use center_crop"
    );
    image_command::run(config, &args.paths, async |app| {
        let preprocessor = Preprocessor::new(app, request)?;
        let (rows, failures) = write_all(app, args, &preprocessor, kind).await?;
        Ok(success_if(failures == 0 && rows > 0))
    })
}

/// Preprocesses the files in the order of discovery. Returns the number of rows and the number of failures.
async fn write_all(
    app: &App,
    args: &PreprocessArgs,
    preprocessor: &Preprocessor<'_>,
    kind: Kind,
) -> anyhow::Result<(usize, usize)> {
    let (plan, preprocessing) = (preprocessor.plan(), &app.pipeline.preprocessing);
    let began = Instant::now();
    let index_path = beside(&args.out);
    let mut index = BufWriter::new(create(&index_path)?);
    let mut tensor = BufWriter::new(create(&args.out)?);
    tensor.write_all(&[0; HEAD])?;
    let progress = progress_bar(&args.paths);
    let found = files::images(&args.paths).map(|found| {
        let source = found.source();
        (found, source)
    });
    let rows = preprocessor.rows(found);
    let mut results = std::pin::pin!(rows.ready_chunks(app.config.preprocess.batch_size));
    let (mut rows, mut failures) = (0, 0);
    let mut shape = [0; 3];
    while let Some(batch) = results.next().await {
        for (found, row) in batch {
            let line = Line {
                row: row.is_ok().then_some(rows),
                path: found.name(),
                error: row.as_ref().err(),
            };
            writeln!(index, "{}", serde_json::to_string(&line)?)?;
            match &row {
                Ok(row) => {
                    tensor.write_all(&row.values)?;
                    shape = row.shape;
                    rows += 1;
                }
                Err(_) => failures += 1,
            }
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    let [a, b, c] = shape;
    tensor.seek(SeekFrom::Start(0))?;
    tensor.write_all(&kind.head(plan, &[rows, a, b, c])?)?;
    tensor.flush()?;
    index.flush()?;
    let seconds = began.elapsed().as_secs_f64();
    eprintln!(
        "{rows} rows [{a}, {b}, {c}] in {} ({} failed, {}) · {} on {}{} · {:.1} images/s",
        args.out.display(),
        failures,
        index_path.display(),
        plan.preprocess.profile.name(),
        preprocessing.assignment.state().active,
        preprocessing
            .warm_up_ms
            .map(|ms| format!(", warm-up {ms:.0} ms"))
            .unwrap_or_default(),
        rows as f64 / seconds.max(f64::MIN_POSITIVE),
    );
    Ok((rows, failures))
}

pub(super) fn create(path: &Path) -> anyhow::Result<File> {
    File::create(path).with_context(|| format!("creating {}", path.display()))
}

/// Returns the path of the index file.
pub(super) fn beside(out: &Path) -> PathBuf {
    let mut name = out.as_os_str().to_owned();
    name.push(".index.jsonl");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_types_of_files_are_refused() {
        assert!(Kind::from_path(Path::new("b.pt")).is_err());
    }
}
