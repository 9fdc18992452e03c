//! The command line.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::{Parser, Subcommand};

use crate::{
    config::{Config, Provenance, Sources},
    http,
    pipeline::options::ScanKind,
};
use facescan_inference::registry::Registry;

pub mod bench;
pub mod config;
pub mod devices;
pub mod embed;
pub mod healthcheck;
pub mod models;
pub mod plot;
pub mod precision;
pub mod preprocess;
pub mod process;
pub mod runtime;
pub mod scan;
pub mod serve;

const EXIT_CODES: &str = "Exit codes: 0 success · 1 something failed (a picture, a check, a shutdown that had to cut \
                          requests off) · 2 wrong usage or settings, or the start failed";

/// Finds, embeds, grades and enhances faces: an HTTP server and a command-line tool.
#[derive(Debug, Parser)]
#[command(version, after_help = EXIT_CODES, max_term_width = 110)]
pub struct Cli {
    /// A settings file over the built-in defaults; `.env` and the environment win over it. Without
    /// this, the file that FACESCAN_CONFIG names.
    #[arg(long, short, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the HTTP API until a signal comes; a second signal does not wait for requests.
    Serve,
    /// Find the faces of pictures, one JSON line a picture, or a table on a terminal.
    ///
    /// Folders are searched for files whose name ends in .jpg, .jpeg, .jpe, .jfif, .png, .webp, .gif, .bmp, .tif or .tiff.
    #[command(
        after_help = "Examples:\n  facescan scan photo.jpg\n  facescan scan --quality --draw out/ archive/ > faces.jsonl\n\n\
                            Exit codes: 0 every picture was scanned · 1 at least one failed"
    )]
    Scan(scan::ScanArgs),
    /// Find the faces of pictures and turn each into a vector, or each picture as a whole.
    #[command(
        after_help = "Examples:\n  facescan embed photo.jpg\n  facescan embed --aligned --embedding-format base64-f32 crops/ > vectors.jsonl\n  \
                            facescan embed archive/ --out faces.parquet\n  FACESCAN__MODELS__ENCODER=my-encoder facescan embed --kind image archive/ --out vectors.npy\n\n\
                            Beside an .npy file FILE.index.jsonl says what each row is of, and which pictures failed.\n\n\
                            Exit codes: 0 every picture was embedded · 1 at least one failed"
    )]
    Embed(embed::EmbedArgs),
    /// Crop, resize, blur, turn or anonymise pictures by a list of operations, one JSON line a picture.
    #[command(
        after_help = "Examples:\n  facescan process --operations '[{\"op\":\"crop\",\"faces\":true,\"margin\":0.3}]' --out faces/ archive/\n\n\
                            Exit codes: 0 every picture was processed · 1 at least one failed"
    )]
    Process(process::ProcessArgs),
    /// Make every face in pictures unrecognisable, and look again until none is found.
    #[command(
        after_help = "Examples:\n  facescan anonymize --method pixelate --out published/ archive/\n\n\
                            Exit codes: 0 no face is found in any result · 1 a picture failed, and has no result"
    )]
    Anonymize(process::AnonymizeArgs),
    /// Make a tensor file of pictures: resized, normalised, one row a picture.
    #[command(
        after_help = "Examples:\n  facescan preprocess archive/ --out batch.npy\n  facescan preprocess archive/ --out batch.safetensors --dtype bf16 --mode center_crop\n\n\
                            Beside the tensor FILE.index.jsonl says which row is which picture, and why others have none.\n\n\
                            Exit codes: 0 every picture has a row · 1 at least one has none"
    )]
    Preprocess(preprocess::PreprocessArgs),
    /// Compare the resize profiles, and the device with the CPU, on pictures.
    #[command(after_help = "Examples:\n  facescan precision photo.jpg --plot precision.svg")]
    Precision(precision::PrecisionArgs),
    /// List, prepare and verify the models.
    #[command(subcommand)]
    Models(models::ModelsCommand),
    /// Say what each operation runs on here, with the proof, or the reason against what was asked for.
    Devices(devices::DevicesArgs),
    /// Create or upgrade the database's tables.
    Migrate,
    /// Print the effective settings and where each came from; secrets are hidden.
    Config {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the OpenAPI document.
    Openapi,
    /// Ask the server at the configured address whether it is ready; for containers.
    Healthcheck {
        /// Another address than the configured one.
        #[arg(long, value_name = "URL")]
        url: Option<String>,
    },
    /// Measure what the devices change on this machine.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
}

impl Cli {
    /// Runs the command and says how it went. Errors go to standard error.
    pub fn run(self) -> ExitCode {
        exit_code(self.dispatch())
    }

    fn dispatch(self) -> anyhow::Result<ExitCode> {
        if matches!(self.command, Command::Openapi) {
            let document = http::openapi_document().to_pretty_json()?;
            writeln!(io::stdout(), "{document}")?;
            return Ok(ExitCode::SUCCESS);
        }
        let sources = Sources::from_process(self.config)?;
        let (config, provenance) = Config::load(&sources)?;
        match self.command {
            Command::Serve => serve::run(config),
            Command::Scan(args) => scan::run(config, &provenance, args, ScanKind::Detect),
            Command::Embed(args) => embed::run(config, &provenance, args),
            Command::Process(args) => process::run(config, &provenance, args),
            Command::Anonymize(args) => process::anonymize(config, &provenance, args),
            Command::Preprocess(args) => preprocess::run(config, &provenance, &args),
            Command::Precision(args) => precision::run(config, &provenance, &args),
            Command::Models(command) => models_command(&config, command),
            Command::Devices(args) => devices::run(config, &provenance, &args),
            Command::Migrate => serve::migrate(&config),
            Command::Config { json } => print_config(&config, &provenance, json),
            Command::Healthcheck { url } => healthcheck::run(&config, url),
            Command::Bench(command) => bench::run(&config, &provenance, command),
            Command::Openapi => unreachable!("answered above, before any settings are read"),
        }
    }
}

/// The exit code of a command. An error goes to standard error.
pub fn exit_code(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        // Whoever read our output has had enough of it.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

fn models_command(config: &Config, command: models::ModelsCommand) -> anyhow::Result<ExitCode> {
    let registry = Registry::load(
        config.models.registry.as_deref(),
        &config.preprocess.resize_defaults(),
    )?;
    let verifying = matches!(command, models::ModelsCommand::Verify { .. });
    let (models_dir, shipped_dir) = (&config.models.dir, &config.runtime.shipped_dir);
    match models::run(command, &registry, models_dir, shipped_dir) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if verifying && !is_broken_pipe(&error) => {
            eprintln!("error: {error:#}");
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}

fn print_config(config: &Config, provenance: &Provenance, json: bool) -> anyhow::Result<ExitCode> {
    config::run(config, provenance, json)?;
    Ok(ExitCode::SUCCESS)
}
