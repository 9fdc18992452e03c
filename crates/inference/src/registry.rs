//! The known models: their inputs and outputs, and the checks of their files.
//!
//! The built-in registry is `configs/models.yaml`. A file of the same form adds models to it, or replaces built-in
//! models by id. Everything about a model is checked before it is used: the entry when it is read, the file's sha256
//! ([`ModelSpec::verify_file`]), and the loaded graph's inputs and outputs ([`ModelSpec::check_signature`]). An error
//! names the model and the field.

mod check;
pub(crate) mod digest;
mod error;
mod external_data;
mod family;
mod signature;
mod spec;
mod vector_space;

use std::{
    collections::HashSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

pub use error::RegistryError;
pub use family::{Family, Role, RoleInput};
pub use spec::{
    Batch, InputSpec, ModelSpec, Pooling, PrepareSpec, Recipe, ResizeDefaults, Thresholds,
};
pub use vector_space::{ALIGNMENT, PREPROCESSING_VERSION};

const EMBEDDED: &str = include_str!("../../../configs/models.yaml");

/// The models this server knows, in the order of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Registry {
    models: Vec<ModelSpec>,
}

/// The state of a model's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileState {
    /// The file has the registry's sha256.
    Ready,
    /// A remote server runs the model.
    Remote,
    /// The file is missing.
    Missing,
    /// The file has another sha256.
    Different {
        /// Its sha256, lower-case hex.
        found: String,
    },
}

impl Registry {
    /// Returns the built-in registry.
    ///
    /// # Errors
    /// Returns an error if `configs/models.yaml` was invalid at build time. A test rules this out.
    pub fn embedded() -> Result<Self, RegistryError> {
        let models = parse(EMBEDDED, Path::new("configs/models.yaml"))?;
        Ok(Self { models })
    }

    /// Returns the built-in registry with the entries of `file`, if there is one. An entry with a known id replaces the
    /// built-in entry as a whole; another entry is added. Encoders without a resize of their own use `defaults`.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or an entry is not valid. The error names the model and the field.
    pub fn load(file: Option<&Path>, defaults: &ResizeDefaults) -> Result<Self, RegistryError> {
        let mut registry = Self::embedded()?;
        if let Some(path) = file {
            let text = fs::read_to_string(path).map_err(|source| RegistryError::Read {
                path: path.to_owned(),
                source,
            })?;
            for model in parse(&text, path)? {
                match registry.models.iter_mut().find(|m| m.id == model.id) {
                    Some(known) => *known = model,
                    None => registry.models.push(model),
                }
            }
        }
        let models = registry.models.iter_mut();
        for model in models.filter(|model| model.role.input() == RoleInput::Image) {
            model.input.resize_as(defaults);
            check::check(model)?;
        }
        Ok(registry)
    }

    /// Returns the model with this id.
    ///
    /// # Errors
    /// Returns an error if there is no such model. The error lists the known ids.
    pub fn get(&self, id: &str) -> Result<&ModelSpec, RegistryError> {
        self.models
            .iter()
            .find(|model| model.id == id)
            .ok_or_else(|| {
                let known: Vec<&str> = self.models.iter().map(|m| m.id.as_str()).collect();
                RegistryError::Invalid(format!(
                    "model `{id}` is not in the registry; there are {}",
                    known.join(", ")
                ))
            })
    }

    /// Returns all models.
    pub fn iter(&self) -> impl Iterator<Item = &ModelSpec> {
        self.models.iter()
    }
}

impl ModelSpec {
    /// Returns the path of the model's file: `file` if it is absolute, otherwise inside `models_dir`.
    pub fn path(&self, models_dir: &Path) -> PathBuf {
        models_dir.join(&self.file)
    }

    /// Reads the model's file completely and compares its sha256 with the registry's.
    ///
    /// # Errors
    /// Returns an error if the file exists but cannot be read.
    pub fn file_state(&self, models_dir: &Path) -> io::Result<FileState> {
        if self.remote.is_some() {
            return Ok(FileState::Remote);
        }
        match digest::sha256_of_file(&self.path(models_dir)) {
            Ok(found) if found == self.sha256 => Ok(FileState::Ready),
            Ok(found) => Ok(FileState::Different { found }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(FileState::Missing),
            Err(error) => Err(error),
        }
    }

    /// Makes sure that the model's file exists, is the one in the registry, and has all weights that it uses.
    ///
    /// # Errors
    /// Returns an error if the file is missing, is unreadable, has another sha256, or has weights in other files, which the
    /// sha256 does not cover. The message says what to do.
    pub fn verify_file(&self, models_dir: &Path) -> Result<(), RegistryError> {
        if self.remote.is_some() {
            return Ok(());
        }
        let path = self.path(models_dir);
        let prepare = |otherwise| match self.prepare {
            Some(_) => "run `facescan models prepare`",
            None => otherwise,
        };
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let hint = prepare("put it there, or correct the field");
                let missing = format!("there is no {}; {hint}", path.display());
                return Err(RegistryError::invalid(&self.id, "file", missing));
            }
            Err(source) => return Err(RegistryError::Read { path, source }),
        };
        let found = digest::sha256(&bytes);
        if found != self.sha256 {
            let hint = prepare("correct the field, or provide the correct file");
            let (file, expected) = (path.display(), &self.sha256);
            let reason = format!("{file} has {found}, the registry says {expected}; {hint}");
            return Err(RegistryError::invalid(&self.id, "sha256", reason));
        }
        let reason = match external_data::first_location(&bytes) {
            Ok(None) => return Ok(()),
            Ok(Some(location)) => format!(
                "{} has weights in another file, `{location}`, which its sha256 does not cover; save the model as one file",
                path.display()
            ),
            Err(error) => format!("{} is not an ONNX model: {error}", path.display()),
        };
        Err(RegistryError::invalid(&self.id, "file", reason))
    }
}

/// Reads a registry file. The YAML becomes plain values first, so that an error in an entry can name its model.
fn parse(text: &str, path: &Path) -> Result<Vec<ModelSpec>, RegistryError> {
    let broken = |reason: String| RegistryError::Invalid(format!("{}: {reason}", path.display()));
    let document: Value =
        serde_saphyr::from_str(text).map_err(|error| broken(error.to_string()))?;
    let Value::Object(mut document) = document else {
        return Err(broken("expected a mapping with the key `models`".into()));
    };
    let Some(Value::Array(entries)) = document.remove("models") else {
        return Err(broken("expected a list under the key `models`".into()));
    };
    if let Some(key) = document.keys().next() {
        return Err(broken(format!(
            "unknown key `{key}`; the only one is `models`"
        )));
    }
    let mut ids = HashSet::new();
    entries
        .into_iter()
        .enumerate()
        .map(|(number, entry)| {
            let model = check::read(entry, number)?;
            if ids.insert(model.id.clone()) {
                Ok(model)
            } else {
                Err(RegistryError::invalid(
                    &model.id,
                    "id",
                    "is there twice in one file",
                ))
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
