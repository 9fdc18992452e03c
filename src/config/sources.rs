//! Where the layers are read from.

use std::{
    collections::BTreeMap,
    env, fmt, fs, io,
    path::{Path, PathBuf},
};

use super::{CONFIG_FILE, ConfigError, Origin, layers::Layers, variables};

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
        for (name, value) in env::vars_os() {
            // A name that is not Unicode is none of ours.
            let Ok(name) = name.into_string() else {
                continue;
            };
            if variables::concerns_us(&name) {
                let value = value
                    .into_string()
                    .map_err(|_| ConfigError::NotUnicode { name: name.clone() })?;
                environment.insert(name, value);
            }
        }
        Ok(Self {
            file,
            dotenv: Some(PathBuf::from(".env")),
            environment,
        })
    }

    /// Reads the sources and puts them on top of the defaults, lowest first.
    pub(super) fn overlay(&self, layers: &mut Layers) -> Result<(), ConfigError> {
        let dotenv = match &self.dotenv {
            Some(path) => read_dotenv(path)?,
            None => BTreeMap::new(),
        };
        if let Some(path) = self.config_file(&dotenv) {
            layers.overlay_file(&path, &read(&path)?)?;
        }
        variables::overlay(layers, &dotenv, ".env", Origin::Dotenv);
        variables::overlay(layers, &self.environment, "the environment", Origin::Env);
        Ok(())
    }

    fn config_file(&self, dotenv: &BTreeMap<String, String>) -> Option<PathBuf> {
        let named = [&self.environment, dotenv]
            .into_iter()
            .filter_map(|variables| variables.get(CONFIG_FILE))
            .find(|path| !path.is_empty());
        self.file.clone().or_else(|| named.map(PathBuf::from))
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

fn read(path: &Path) -> Result<String, ConfigError> {
    fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.to_owned(),
        source,
    })
}

/// Parses `.env` without touching the environment of the process. Of a name given twice, the last wins.
fn read_dotenv(path: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    let text = match read(path) {
        Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(BTreeMap::new());
        }
        text => text?,
    };
    let text = text.trim_start_matches('\u{feff}');
    let mut variables = BTreeMap::new();
    let mut last = "the start".to_owned();
    for line in dotenvy::from_read_iter(text.as_bytes()) {
        let (name, value) = line.map_err(|_| ConfigError::Dotenv {
            path: path.to_owned(),
            after: last.clone(),
        })?;
        last.clone_from(&name);
        variables.insert(name, value);
    }
    Ok(variables)
}
