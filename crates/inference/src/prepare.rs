//! Converts shipped model files to files that ONNX Runtime loads, runs fast and batches.
//!
//! The default models have blockwise int8 weights and fixed shapes. A [`Recipe`] rewrites the graph: weights become f32
//! (`fold`), batch and size become dynamic (`shapes`), PRelu becomes cheaper operations (`prelu`), and unused parts are
//! removed (`prune`). The same input returns the same bytes, so the registry can record their sha256.

mod fold;
pub(crate) mod initializer;
mod prelu;
mod prune;
mod shapes;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use prost::Message;

pub use super::onnx::OnnxError;
use super::{
    onnx::{self, GraphProto},
    registry::{FileState, ModelSpec, PrepareSpec, Recipe, RegistryError, digest},
};

/// The reason why a model could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The shipped file is missing. The message has the command that fetches it.
    #[error("{0}")]
    ShippedMissing(String),
    /// The entry has no `prepare` section, or the shipped or the rewritten file is not the one in the registry.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// The bytes are not a model that these structs hold completely.
    #[error(transparent)]
    Onnx(#[from] OnnxError),
    /// The graph is not as the recipe expects.
    #[error("the graph does not fit the recipe: {0}")]
    Graph(String),
    /// Reading or writing a file failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system reported.
        source: std::io::Error,
    },
}

/// A model file that is ready to load.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparedModel {
    /// The path.
    pub path: PathBuf,
    /// Its length in bytes.
    pub bytes: u64,
    /// Its sha256, lower-case hex; equal to the registry's.
    pub sha256: String,
    /// Whether it had to be written: false if the right file existed.
    pub written: bool,
}

/// Prepares one model: checks the shipped file, rewrites it, checks the result and moves it to its path atomically.
///
/// If a file with the registry's sha256 exists, it stays, and the shipped file is not needed.
///
/// # Errors
/// Returns an error if the model has no recipe, if the shipped file is missing or is not the expected one, if the
/// rewritten file is not the one in the registry, or if a file cannot be read or written.
pub fn prepare(
    spec: &ModelSpec,
    shipped_dir: &Path,
    models_dir: &Path,
) -> Result<PreparedModel, PrepareError> {
    let Some(recipe) = &spec.prepare else {
        return Err(RegistryError::Invalid(format!(
            "model `{}` has no `prepare` section in the registry: its file is used as it is",
            spec.id
        ))
        .into());
    };
    let path = spec.path(models_dir);
    let io = |source| PrepareError::Io {
        path: path.clone(),
        source,
    };
    if spec.file_state(models_dir).map_err(io)? == FileState::Ready {
        let bytes = fs::metadata(&path).map_err(io)?.len();
        return Ok(PreparedModel {
            path,
            bytes,
            sha256: spec.sha256.clone(),
            written: false,
        });
    }
    let shipped = read_shipped(spec, recipe, shipped_dir)?;
    let prepared = rewrite(&shipped, recipe.recipe)?;
    let found = digest::sha256(&prepared);
    if found != spec.sha256 {
        let expected = &spec.sha256;
        let reason = format!("the prepared file has {found}, but the registry has {expected}");
        return Err(RegistryError::invalid(&spec.id, "sha256", reason).into());
    }
    write_in_one_step(&path, &prepared).map_err(io)?;
    Ok(PreparedModel {
        path,
        bytes: prepared.len() as u64,
        sha256: found,
        written: true,
    })
}

/// Reads the shipped file and checks its sha256.
fn read_shipped(
    spec: &ModelSpec,
    recipe: &PrepareSpec,
    shipped_dir: &Path,
) -> Result<Vec<u8>, PrepareError> {
    let path = shipped_dir.join(&recipe.file);
    let bytes = fs::read(&path).map_err(|source| {
        if source.kind() == std::io::ErrorKind::NotFound {
            PrepareError::ShippedMissing(format!(
                "model `{}`: there is no {}: `scripts/setup{}` fetches it",
                spec.id,
                path.display(),
                if recipe.opt_in { " --tests" } else { "" }
            ))
        } else {
            PrepareError::Io {
                path: path.clone(),
                source,
            }
        }
    })?;
    let found = digest::sha256(&bytes);
    if found != recipe.sha256 {
        let reason = format!(
            "{} has {found}, the registry says {}; remove the file and fetch it again",
            path.display(),
            recipe.sha256
        );
        return Err(RegistryError::invalid(&spec.id, "prepare.sha256", reason).into());
    }
    Ok(bytes)
}

/// Applies a recipe to the bytes of a shipped model. The result depends only on the bytes.
///
/// # Errors
/// Returns an error if the bytes are not an ONNX model, if they would lose fields, or if the graph does not match the
/// recipe.
pub fn rewrite(bytes: &[u8], recipe: Recipe) -> Result<Vec<u8>, PrepareError> {
    let mut model = onnx::decode(bytes)?;
    let graph = model
        .graph
        .as_mut()
        .ok_or_else(|| PrepareError::Graph("the model has no graph".into()))?;
    refuse_subgraphs(graph)?;
    match recipe {
        Recipe::Yunet => {
            fold::fold_weights(graph)?;
            shapes::free_batch_in_reshapes(graph)?;
            prune::drop_unused(graph);
            shapes::free_dims(graph, &shapes::BATCH_AND_SIZE)?;
        }
        Recipe::Centerface => {
            prune::drop_unused(graph);
            shapes::free_dims(graph, &shapes::BATCH_AND_SIZE)?;
        }
        Recipe::Sface => {
            fold::fold_weights(graph)?;
            prelu::split(graph)?;
            prune::drop_unused(graph);
            shapes::free_dims(graph, &shapes::BATCH)?;
        }
    }
    Ok(model.encode_to_vec())
}

/// Refuses inner graphs. They may read names of the outer graph, which the recipes do not track.
fn refuse_subgraphs(graph: &GraphProto) -> Result<(), PrepareError> {
    let inner = graph.node.iter().find(|node| {
        node.attribute
            .iter()
            .any(|attribute| attribute.g.is_some() || !attribute.graphs.is_empty())
    });
    match inner {
        Some(node) => Err(PrepareError::Graph(format!(
            "node `{}` ({}) has an inner graph",
            node.name(),
            node.op_type()
        ))),
        None => Ok(()),
    }
}

/// Writes a temporary file and renames it, so that a reader sees the whole file or none.
fn write_in_one_step(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let written = fs::File::create(&part)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        // The first error is the one to report. The next attempt overwrites a leftover file.
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests;
