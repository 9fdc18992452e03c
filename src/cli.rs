//! The command line.

use std::{
    io::{self, Write},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use facescan_config::{Config, Provenance, Sources};
use facescan_pipeline::{encoder_process, operation::ScanKind};
use facescan_telemetry::redaction::{self, redact};

use crate::{http, permissions};
use facescan_inference::registry::Registry;

mod audit;
mod batches;
pub mod bench;
mod calibrate;
mod client;
mod cluster;
pub mod config;
mod demo;
mod devices;
mod embed;
mod encode_image;
mod enroll;
mod files;
mod folder;
mod healthcheck;
mod image_command;
mod index;
mod keys;
mod models;
mod plot;
mod precision;
mod preprocess;
mod process;
pub mod runtime;
mod scan;
mod search;
pub mod serve;
mod submit;
mod verify;
mod version;
pub mod worker;

const EXIT_CODES: &str = "Exit codes: 0 success · 1 something failed (an image, a check, a shutdown that \
                          dropped requests) · 2 wrong usage or settings, or the start failed";

/// Finds, embeds, grades and enhances faces with an HTTP server and a command-line tool.
#[derive(Debug, Parser)]
#[command(disable_version_flag = true, arg_required_else_help = true, after_help = EXIT_CODES, max_term_width = 110)]
pub struct Cli {
    /// Print the version, the commit, the runtime and the models.
    #[arg(long, short = 'V')]
    version: bool,
    /// A settings file. It overrides the built-in defaults; variables override it. The default is the file in
    /// FACESCAN_CONFIG.
    #[arg(long, short, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A file with variables, one NAME=value a line; the environment overrides it. `serve` and `worker` read `.env` in the
    /// working directory if no file is named, and other commands read none.
    #[arg(long, global = true, value_name = "FILE")]
    env_file: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The commands under their headings, in the order of the help.
const HEADINGS: [(&str, &[&str]); 3] = [
    (
        "Files here",
        &[
            "demo",
            "scan",
            "embed",
            "verify",
            "cluster",
            "process",
            "anonymize",
            "preprocess",
            "precision",
            "calibrate",
            "models",
            "devices",
            "bench",
            "completions",
            "man",
        ],
    ),
    (
        "A server",
        &[
            "serve",
            "worker",
            "submit",
            "batches",
            "enroll",
            "search",
            "healthcheck",
            "config",
            "openapi",
        ],
    ),
    ("Its database", &["keys", "index", "audit", "migrate"]),
];

/// Returns the parser of the command line, whose help has the commands under headings.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let mut commands = String::new();
    for (heading, names) in HEADINGS {
        commands += &format!("\n{heading}:\n");
        for name in names {
            let about = command
                .find_subcommand(name)
                .and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            commands += &format!("  {name:<12} {about}\n");
        }
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n{commands}\nOptions:\n{{options}}{{after-help}}"
    ))
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the HTTP API until a signal arrives; a second signal stops it at once.
    Serve(serve::ServeArgs),
    /// Process the items of batches until a signal arrives; a second signal stops it at once.
    ///
    /// Several workers and servers can share one Postgres database and one store of images.
    Worker(worker::WorkerArgs),
    /// Send images to a server as one batch, and print the batch.
    #[command(
        after_help = "Examples:\n  facescan submit archive/ --operation embed --name archive --wait\n  find . -name '*.jpg' | facescan submit - --operation quality\n\n\
                            Exit codes: 0 every image was accepted, and with --wait has a result · 1 at least one image failed"
    )]
    Submit(submit::SubmitArgs),
    /// List, read, cancel, retry and delete the batches of a server.
    #[command(subcommand)]
    Batches(batches::BatchesCommand),
    /// Find the face in a picture that comes with the program.
    Demo(demo::DemoArgs),
    /// Find the faces in images and print one JSON line per image, or a table on a terminal.
    ///
    /// The command searches folders for files that end in .jpg, .jpeg, .jpe, .jfif, .png, .webp, .gif, .bmp, .tif or
    /// .tiff.
    #[command(
        after_help = "Examples:\n  facescan scan photo.jpg\n  facescan scan --quality --draw out/ archive/ > faces.jsonl\n\n\
                            Exit codes: 0 every image was scanned · 1 at least one image failed"
    )]
    Scan(scan::ScanArgs),
    /// Turn each face in images, or each whole image, into a vector.
    #[command(
        after_help = "Examples:\n  facescan embed photo.jpg\n  facescan embed --aligned --embedding-format base64-f32 crops/ > vectors.jsonl\n  \
                            facescan embed archive/ --out faces.parquet\n  FACESCAN__MODELS__ENCODER=my-encoder facescan embed --kind image archive/ --out vectors.npy\n\n\
                            For an .npy file, FILE.index.jsonl lists the face or image of each row and the images that failed.\n\n\
                            Exit codes: 0 every image was embedded · 1 at least one image failed"
    )]
    Embed(embed::EmbedArgs),
    /// Compare the faces in two images, and print whether they show the same person.
    #[command(
        after_help = "Examples:\n  facescan verify passport.jpg selfie.jpg\n  facescan verify --far 0.0001 a.jpg b.jpg\n\n\
                            Exit codes: 0 the faces match · 1 they do not match · 2 an image has no face, or something failed"
    )]
    Verify(verify::VerifyArgs),
    /// Measure the error rates of the embedder on images of known people, and print the table.
    ///
    /// DIR has a folder for each person, with the images of that person. Every face is compared with every other one.
    #[command(
        after_help = "Examples:\n  facescan calibrate people/ --set 'our archive, 2026' --out calibration.yaml\n  \
                            FACESCAN__RECOGNITION__CALIBRATIONS='[calibration.yaml]' facescan serve"
    )]
    Calibrate(calibrate::CalibrateArgs),
    /// Group the faces in the images of a folder into people.
    ///
    /// Each line of the output is a person with the faces, as JSON. The last line has the faces of nobody.
    #[command(
        after_help = "Examples:\n  facescan cluster photos/ --out people.jsonl\n\n\
                            Exit codes: 0 every image was read · 1 at least one image failed"
    )]
    Cluster(cluster::ClusterArgs),
    /// Enroll the faces in images in a collection of a server, and print one JSON line per image.
    #[command(
        after_help = "Examples:\n  facescan enroll people/ --collection 0198f2c2-7d3e-7c41-9d3e-0a1b2c3d4e5f\n  \
                            facescan enroll anna.jpg --collection 0198f2c2-7d3e-7c41-9d3e-0a1b2c3d4e5f --subject anna\n\n\
                            Exit codes: 0 every face was enrolled · 1 at least one image failed, or a face was rejected"
    )]
    Enroll(enroll::EnrollArgs),
    /// Search for the face in each image in a collection of a server.
    #[command(
        after_help = "Examples:\n  facescan search visitor.jpg --collection 0198f2c2-7d3e-7c41-9d3e-0a1b2c3d4e5f --purpose 'entry control'\n\n\
                            The candidates are for a person to decide, and no decision.\n\n\
                            Exit codes: 0 every image was searched for · 1 at least one image failed"
    )]
    Search(search::SearchArgs),
    /// Show, rebuild and purge the index of enrolled faces.
    #[command(subcommand)]
    Index(index::IndexCommand),
    /// Crop, resize, blur, rotate or anonymize images by a list of operations; print one JSON line per image.
    #[command(
        after_help = "Examples:\n  facescan process --operations '[{\"op\":\"crop\",\"faces\":true,\"margin\":0.3}]' --out faces/ archive/\n\n\
                            Exit codes: 0 every image was processed · 1 at least one image failed"
    )]
    Process(process::ProcessArgs),
    /// Make every face in images unrecognizable, and repeat until the detector finds none.
    #[command(
        after_help = "Examples:\n  facescan anonymize --method pixelate --out published/ archive/\n\n\
                            Exit codes: 0 no result contains a detectable face · 1 at least one image failed and has no result"
    )]
    Anonymize(process::AnonymizeArgs),
    /// Resize and normalize images, and write them as the rows of one tensor file.
    #[command(
        after_help = "Examples:\n  facescan preprocess archive/ --out batch.npy\n  facescan preprocess archive/ --out batch.safetensors --dtype bf16 --mode center_crop\n\n\
                            FILE.index.jsonl lists the image of each row, and the error of each image without a row.\n\n\
                            Exit codes: 0 every image has a row · 1 at least one image has no row"
    )]
    Preprocess(preprocess::PreprocessArgs),
    /// Compare the resize profiles with each other, and the device with the CPU, on images.
    #[command(after_help = "Examples:\n  facescan precision photo.jpg --plot precision.svg")]
    Precision(precision::PrecisionArgs),
    /// List, prepare and verify the models.
    #[command(subcommand)]
    Models(models::ModelsCommand),
    /// Show the device of each operation with the proof, or the reason why the requested device is not used.
    Devices(devices::DevicesArgs),
    /// Create, list and revoke keys of the API in the database.
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Verify and export the audit trail in the database.
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Create or upgrade the database's tables.
    Migrate,
    /// Print the effective settings and the origin of each; secrets are hidden.
    Config {
        /// Print JSON instead of YAML.
        #[arg(long)]
        json: bool,
        /// Print every setting with its default and what it is for, as a configuration file to change.
        #[arg(long, conflicts_with = "json")]
        template: bool,
    },
    /// Print the OpenAPI document.
    Openapi,
    /// Print the completions of a shell.
    #[command(
        after_help = "Examples:\n  facescan completions bash > ~/.local/share/bash-completion/completions/facescan"
    )]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write a manual page for each command.
    Man {
        /// The folder of the pages.
        #[arg(value_name = "DIR")]
        dir: PathBuf,
    },
    /// Check whether the server at the configured address is ready; for containers.
    Healthcheck {
        /// Use this address instead of the configured one.
        #[arg(long, value_name = "URL")]
        url: Option<String>,
    },
    /// Measure the effect of the devices on this machine.
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    #[command(name = encoder_process::COMMAND, hide = true)]
    EncodeImage(encode_image::EncodeImageArgs),
}

impl Command {
    /// Returns the `.env` of the working directory, if the command is one that is started in a folder of its own. Other
    /// commands run in folders of photographs, which can come from anybody.
    fn dotenv(&self) -> Option<PathBuf> {
        let is_service = matches!(self, Self::Serve(_) | Self::Worker(_));
        let file = PathBuf::from(".env");
        (is_service && file.exists()).then_some(file)
    }

    /// Returns whether the command logs warnings while it prints its results. Services start logs of their own, and commands
    /// on keys, settings and files have none.
    fn logs_only_warnings(&self) -> bool {
        !matches!(
            self,
            Self::Serve(_)
                | Self::Worker(_)
                | Self::Models(_)
                | Self::Keys(_)
                | Self::Audit(_)
                | Self::Migrate
                | Self::Config { .. }
                | Self::Healthcheck { .. }
        )
    }

    /// Runs a command that needs at most the address of a server, and continues with any other one.
    fn run_without_settings(
        self,
        sources: &Sources,
    ) -> ControlFlow<anyhow::Result<ExitCode>, Self> {
        ControlFlow::Break(match self {
            Self::Openapi => print_openapi(),
            Self::Completions { shell } => {
                clap_complete::generate(shell, &mut command(), "facescan", &mut io::stdout());
                Ok(ExitCode::SUCCESS)
            }
            Self::Man { dir } => write_manual(&dir),
            Self::Config { template: true, .. } => print(facescan_config::DEFAULTS),
            Self::Submit(args) => submit::run(&args, sources),
            Self::Batches(command) => batches::run(command, sources),
            Self::Enroll(args) => enroll::run(&args, sources),
            Self::Search(args) => search::run(&args, sources),
            Self::EncodeImage(args) => encode_image::run(&args),
            command => return ControlFlow::Continue(command),
        })
    }

    /// Runs a command with the settings.
    fn run(self, config: Config, provenance: &Provenance) -> anyhow::Result<ExitCode> {
        match self {
            Self::Serve(_) => serve::run(config),
            Self::Worker(args) => worker::run(config, &args),
            Self::Demo(args) => demo::run(config, args),
            Self::Scan(args) => scan::run(config, &args, ScanKind::Detect),
            Self::Embed(args) => embed::run(config, &args),
            Self::Verify(args) => verify::run(config, &args),
            Self::Calibrate(args) => calibrate::run(config, &args),
            Self::Cluster(args) => cluster::run(config, &args),
            Self::Index(command) => index::run(&config, &command),
            Self::Process(args) => process::run(config, args),
            Self::Anonymize(args) => process::anonymize(config, args),
            Self::Preprocess(args) => preprocess::run(config, &args),
            Self::Precision(args) => precision::run(config, &args),
            Self::Models(command) => models_command(&config, command),
            Self::Devices(args) => devices::run(config, &args),
            Self::Keys(command) => keys::run(&config, command),
            Self::Audit(command) => audit::run(&config, command),
            Self::Migrate => serve::migrate(&config),
            Self::Config { json, .. } => config::run(&config, provenance, json),
            Self::Healthcheck { url } => healthcheck::run(&config, url),
            Self::Bench(command) => bench::run(&config, command),
            Self::Openapi
            | Self::Completions { .. }
            | Self::Man { .. }
            | Self::Submit(_)
            | Self::Batches(_)
            | Self::Enroll(_)
            | Self::Search(_)
            | Self::EncodeImage(_) => {
                unreachable!("handled above, before the settings are read")
            }
        }
    }
}

impl Cli {
    /// Parses the arguments of the process. Prints the help, or what is wrong, and ends the process if they name no command.
    pub fn from_process() -> Self {
        let parsed = Self::from_arg_matches(&command().get_matches());
        parsed.unwrap_or_else(|error| error.exit())
    }

    /// Runs the command and returns its exit code. Errors go to standard error.
    pub fn run(self) -> ExitCode {
        exit_code(self.dispatch())
    }

    fn dispatch(self) -> anyhow::Result<ExitCode> {
        let Some(command) = self.command else {
            if self.version {
                version::print(&Sources::from_process(self.config, self.env_file)?)?;
                return Ok(ExitCode::SUCCESS);
            }
            anyhow::bail!("no command is named; `facescan --help` lists them");
        };
        let dotenv = self.env_file.or_else(|| command.dotenv());
        let mut sources = Sources::from_process(self.config, dotenv)?;
        let command = match command.run_without_settings(&sources) {
            ControlFlow::Break(done) => return done,
            ControlFlow::Continue(command) => command,
        };
        if let Command::Serve(args) = &command {
            sources.options = args.settings();
        }
        // Models are public, and are often prepared by another user than the server's.
        if !matches!(command, Command::Models(_)) {
            permissions::keep_new_files_private();
        }
        let (config, provenance) = Config::load(&sources)?;
        redaction::hide(config.secrets());
        if command.logs_only_warnings() {
            runtime::start_quiet_logs(&config, &provenance)?;
        }
        command.run(config, &provenance)
    }
}

/// Returns the exit code of a command. It prints an error to standard error.
pub fn exit_code(outcome: anyhow::Result<ExitCode>) -> ExitCode {
    match outcome {
        Ok(code) => code,
        // The reader of the output has closed the pipe, which is not an error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", redact(&format!("{error:#}")));
            ExitCode::from(2)
        }
    }
}

fn print(text: &str) -> anyhow::Result<ExitCode> {
    io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn print_openapi() -> anyhow::Result<ExitCode> {
    let document = http::openapi_document().to_pretty_json()?;
    print(&format!("{document}\n"))
}

fn write_manual(dir: &Path) -> anyhow::Result<ExitCode> {
    std::fs::create_dir_all(dir)?;
    clap_mangen::generate_to(command(), dir)?;
    Ok(ExitCode::SUCCESS)
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
    let (models_dir, shipped_dir) = (config.models_dir(), config.runtime.shipped());
    match models::run(command, &registry, &models_dir, &shipped_dir) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if verifying && !is_broken_pipe(&error) => {
            eprintln!("error: {error:#}");
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use facescan_pipeline::operation::{BatchOperation, Operation};

    use super::*;

    #[test]
    fn every_command_is_under_one_heading() {
        let command = Cli::command();
        let commands = command
            .get_subcommands()
            .filter(|command| !command.is_hide_set());
        let mut expected: Vec<&str> = commands.map(clap::Command::get_name).collect();
        let mut listed: Vec<&str> = HEADINGS
            .iter()
            .flat_map(|(_, names)| names.iter().copied())
            .collect();
        expected.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, expected);
    }

    /// `facescan submit` has the operations of batches.
    #[test]
    fn every_operation_that_no_batch_has_is_a_command() {
        let command = Cli::command();
        let batched = BatchOperation::ALL.map(BatchOperation::operation);
        let others = Operation::ALL.into_iter();
        for operation in others.filter(|operation| !batched.contains(operation)) {
            let name = operation.name();
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
    }
}
