//! The sources of the layers.

use std::{
    collections::BTreeMap,
    env, fmt, fs,
    path::{Path, PathBuf},
};

use super::{
    error::ConfigError,
    schema::{self, CONFIG_FILE},
};

/// The sources that a configuration is read from. The default has no source and results in the built-in defaults.
#[derive(Clone, Default)]
pub struct Sources {
    /// The configuration file. `None` means the file that the variable [`CONFIG_FILE`] names in the environment or in
    /// `.env`, if any.
    pub file: Option<PathBuf>,
    /// The `.env` file, if one is read.
    pub dotenv: Option<PathBuf>,
    /// The environment. Variables that the configuration does not know are ignored.
    pub environment: BTreeMap<String, String>,
    /// The settings of the command line. They win over all others.
    pub options: Vec<SettingOption>,
}

/// A setting that an option of the command line sets.
#[derive(Clone)]
pub struct SettingOption {
    /// The full key of the setting, such as `server.port`.
    pub key: &'static str,
    /// The option, such as `--port`.
    pub name: &'static str,
    /// The value, as a variable has it.
    pub value: String,
}

impl Sources {
    /// Returns the sources of this process: the files of the command line, and the environment variables that concern the
    /// configuration.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError::NotUnicode`] if one of these variables is not UTF-8.
    pub fn from_process(
        file: Option<PathBuf>,
        dotenv: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let mut environment = BTreeMap::new();
        // A name that is not Unicode cannot be the name of a setting.
        let variables =
            env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value)));
        for (name, value) in variables.filter(|(name, _)| schema::is_known_variable(name)) {
            let Ok(value) = value.into_string() else {
                return Err(ConfigError::NotUnicode { name });
            };
            environment.insert(name, value);
        }
        Ok(Self {
            file,
            dotenv,
            environment,
            options: Vec::new(),
        })
    }

    /// Returns the configuration file, if any.
    pub(super) fn config_file(&self, dotenv: &BTreeMap<String, String>) -> Option<PathBuf> {
        let mut named = [&self.environment, dotenv]
            .into_iter()
            .filter_map(|layer| layer.get(CONFIG_FILE));
        let named = named.find(|path| !path.is_empty());
        self.file.clone().or_else(|| named.map(PathBuf::from))
    }

    /// Parses `.env` and leaves the environment of the process unchanged. If a name occurs twice, the last one wins.
    pub(super) fn read_dotenv(&self) -> Result<BTreeMap<String, String>, ConfigError> {
        let mut variables = BTreeMap::new();
        let Some(path) = &self.dotenv else {
            return Ok(variables);
        };
        let text = read(path)?;
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

/// Shows only the names, because the values may be secrets.
impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sources")
            .field("file", &self.file)
            .field("dotenv", &self.dotenv)
            .field("environment", &self.environment.keys())
            .field(
                "options",
                &self
                    .options
                    .iter()
                    .map(|option| option.name)
                    .collect::<Vec<_>>(),
            )
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
