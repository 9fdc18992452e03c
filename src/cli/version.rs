//! `facescan --version`: the program, the runtime that it loads, and its models.

use std::io::{self, Write};

use facescan_config::{Config, Sources};
use facescan_inference::{backend::ort, registry::Role};

/// The commit that the program was built from. Builds of packages set it.
const COMMIT: Option<&str> = option_env!("FACESCAN_COMMIT");

/// Prints the version.
///
/// # Errors
/// Returns an error if the settings are wrong or the output cannot be written.
pub fn print(sources: &Sources) -> anyhow::Result<()> {
    let mut out = io::stdout();
    let commit = COMMIT.filter(|commit| !commit.is_empty());
    let commit = commit.map_or_else(String::new, |commit| format!(" (commit {commit})"));
    writeln!(out, "facescan {}{commit}", env!("CARGO_PKG_VERSION"))?;
    let (config, _) = Config::load(sources)?;
    let library = config.runtime.onnxruntime();
    let version = match ort::version(&library) {
        Ok(version) => version,
        Err(error) => error.to_string(),
    };
    let openvino = config.runtime.openvino();
    let openvino = match openvino.is_dir() {
        true => openvino.display().to_string(),
        false => "none".to_owned(),
    };
    let models: Vec<&str> = [Role::Detector, Role::Embedder, Role::Encoder]
        .into_iter()
        .filter_map(|role| config.models.id(role))
        .collect();
    let rows = [
        ("ONNX Runtime", format!("{version}, {}", library.display())),
        ("OpenVINO", openvino),
        (
            "models",
            format!("{} in {}", models.join(", "), config.models_dir().display()),
        ),
    ];
    for (name, text) in rows {
        writeln!(out, "  {name:<12} {text}")?;
    }
    Ok(())
}
