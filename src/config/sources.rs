//! Where the layers are read from.

use std::{
    collections::BTreeMap,
    env, fmt, fs, io,
    path::{Path, PathBuf},
};

use super::{CONFIG_FILE, ConfigError, schema};

/// The places that a configuration is read from. The default is none of them: the built-in defaults alone.
#[derive(Clone, Default)]
pub struct Sources {
    /// The configuration file. `None` takes the one that the variable [`CONFIG_FILE`] names, in the
    /// environment or in `.env`, if any.
    pub file: Option<PathBuf>,
    /// The `.env` file; one that does not exist counts as empty.
    pub dotenv: Option<PathBuf>,
    /// The environment. Variables that the configuration does not know are ignored.
    pub environment: BTreeMap<String, String>,
}

impl Sources {
    /// The sources of this process: the file of the command line, `.env` in the working directory, and
    /// those variables of the environment that concern the configuration.
    ///
    /// # Errors
    ///
    /// [`ConfigError::NotUnicode`] when one of these variables is not UTF-8.
    pub fn from_process(file: Option<PathBuf>) -> Result<Self, ConfigError> {
        let mut environment = BTreeMap::new();
        // A name that is not Unicode is not the name of a setting.
        let variables =
            env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        for (name, value) in variables.filter(|(name, _)| schema::is_ours(name)) {
            let Ok(value) = value.into_string() else {
                return Err(ConfigError::NotUnicode { name });
            };
            environment.insert(name, value);
        }
        let dotenv = Some(PathBuf::from(".env"));
        Ok(Self {
            file,
            dotenv,
            environment,
        })
    }

    /// The configuration file, if any.
    pub(super) fn config_file(&self, dotenv: &BTreeMap<String, String>) -> Option<PathBuf> {
        let mut named = [&self.environment, dotenv]
            .into_iter()
            .filter_map(|layer| layer.get(CONFIG_FILE));
        let named = named.find(|path| !path.is_empty());
        self.file.clone().or_else(|| named.map(PathBuf::from))
    }

    /// Parses `.env` without touching the environment of the process. Of a name given twice, the last wins.
    pub(super) fn read_dotenv(&self) -> Result<BTreeMap<String, String>, ConfigError> {
        let mut variables = BTreeMap::new();
        let Some(path) = &self.dotenv else {
            return Ok(variables);
        };
        let text = match read(path) {
            Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                String::new()
            }
            text => text?,
        };
        let mut after = "the start".to_owned();
        for line in dotenvy::from_read_iter(text.trim_start_matches('\u{feff}').as_bytes()) {
            let Ok((name, value)) = line else {
                let path = path.clone();
                return Err(ConfigError::Dotenv { path, after });
            };
            after.clone_from(&name);
            variables.insert(name, value);
        }
        Ok(variables)
    }
}

/// The values may be secrets; the names say enough.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("file", &self.file)
            .field("dotenv", &self.dotenv)
            .field("environment", &self.environment.keys())
            .finish()
    }
}

/// Reads a file.
pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    let refuse = |source| ConfigError::Read {
        path: path.to_owned(),
        source,
    };
    fs::read_to_string(path).map_err(refuse)
}
