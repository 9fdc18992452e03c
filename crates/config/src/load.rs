//! Merges the layers, and reads the result into a [`Config`].

use std::{collections::BTreeMap, mem, path::Path};

use facescan_fields::flag;
use garde::Validate;
use serde::Deserialize;
use serde_json::Value;
use serde_saphyr::UserMessageFormatter;

use super::{
    config::Config,
    error::{ConfigError, SettingError},
    masks::mask_url,
    origin::{Origin, Provenance},
    schema::{self, DEFAULTS, PREFIX, SETTINGS, Setting, pointer},
    sources::{self, SettingOption, Sources},
};

type Mapping = serde_json::Map<String, Value>;

impl Config {
    /// Merges the layers and checks every setting.
    ///
    /// `Config::load(&Sources::default())` returns the defaults.
    ///
    /// # Errors
    ///
    /// Returns an error at once if a file cannot be read or parsed. All unknown settings and values that are not
    /// allowed are collected in [`ConfigError::Invalid`].
    pub fn load(sources: &Sources) -> Result<(Self, Provenance), ConfigError> {
        let mut loader = Loader::new()?;
        let dotenv = sources.read_dotenv()?;
        if let Some(path) = sources.config_file(&dotenv) {
            loader.add_file(&path, &sources::read(&path)?)?;
        }
        loader.add_variables(&dotenv, ".env", Origin::Dotenv);
        loader.add_variables(&sources.environment, "the environment", Origin::Env);
        loader.add_options(&sources.options);
        loader.finish()
    }
}

/// The result of the layers so far. It does not implement `Debug`, because it contains secrets.
pub(super) struct Loader {
    defaults: Value,
    /// The last value of each setting that a layer sets, with its origin.
    values: BTreeMap<String, (Value, Origin)>,
    problems: Vec<SettingError>,
}

impl Loader {
    /// Starts with the defaults.
    pub(super) fn new() -> Result<Self, ConfigError> {
        let defaults = parse_mapping(DEFAULTS)
            .map_err(ConfigError::Defaults)?
            .into();
        Ok(Self {
            defaults,
            values: BTreeMap::new(),
            problems: Vec::new(),
        })
    }

    /// Adds a YAML file.
    fn add_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let refuse = |message| ConfigError::Yaml {
            path: path.to_owned(),
            message,
        };
        let mapping = parse_mapping(text).map_err(refuse)?;
        self.add_mapping(path, "", mapping);
        Ok(())
    }

    fn add_mapping(&mut self, path: &Path, prefix: &str, mapping: Mapping) {
        for (name, value) in mapping {
            let key = format!("{prefix}{name}");
            if let Some(setting) = schema::of_key(&key) {
                self.set(&setting.key, value, Origin::File(path.to_owned()));
            } else if !schema::is_section(&key) {
                let suggestion = schema::suggest(&key).map(|setting| setting.key.clone());
                let place = path.display().to_string();
                self.problems.push(SettingError::Unknown {
                    name: key,
                    place,
                    suggestion,
                });
            } else if let Value::Object(inner) = value {
                self.add_mapping(path, &format!("{key}."), inner);
            } else if !value.is_null() {
                // A section is null if all its settings are commented out.
                let path = path.to_owned();
                self.problems.push(SettingError::NotASection { key, path });
            }
        }
    }

    /// Adds the variables of a layer. `origin` turns the name of a variable into an origin.
    fn add_variables(
        &mut self,
        variables: &BTreeMap<String, String>,
        layer: &str,
        origin: fn(String) -> Origin,
    ) {
        for (name, text) in variables {
            if let Some(setting) = schema::of_variable(name) {
                self.add_variable(&setting.key, text, origin(name.clone()));
            } else if let Some(rest) = name.strip_prefix(PREFIX) {
                let suggestion = schema::suggest(&rest.to_ascii_lowercase().replace("__", "."));
                let suggestion = suggestion.map(Setting::variable);
                self.problems.push(SettingError::Unknown {
                    name: name.clone(),
                    place: layer.to_owned(),
                    suggestion,
                });
            } else if let Some(meant) = schema::with_single_underscores(name)
                && !schema::is_address_of_service(text)
            {
                self.problems.push(SettingError::Unknown {
                    name: name.clone(),
                    place: layer.to_owned(),
                    suggestion: Some(meant.variable()),
                });
            }
        }
    }

    /// Adds the settings of the command line.
    fn add_options(&mut self, options: &[SettingOption]) {
        for option in options {
            let value = self.parse_text(option.key, &option.value);
            self.set(option.key, value, Origin::Option(option.name));
        }
    }

    /// Sets a variable. A setting can have several names. If one layer sets two of them to different values, that is a
    /// conflict.
    fn add_variable(&mut self, key: &str, text: &str, second: Origin) {
        let value = self.parse_text(key, text);
        let first = self.origin(key);
        let is_same_layer = mem::discriminant(&first) == mem::discriminant(&second);
        if !is_same_layer {
            self.set(key, value, second);
        } else if self.value(key) != value {
            let key = key.to_owned();
            self.problems
                .push(SettingError::Conflict { key, first, second });
        }
    }

    /// Parses the text of a variable. Tries the text itself first, so that a text setting keeps `no` and `123`. Then tries
    /// a flag, a lower-case word and YAML. If the type accepts none, returns the YAML, and [`Self::finish`] reports the
    /// error.
    pub(super) fn parse_text(&self, key: &str, text: &str) -> Value {
        let trimmed = text.trim();
        if trimmed.is_empty() || trimmed == "null" {
            return Value::Null;
        }
        let word = trimmed.to_ascii_lowercase();
        let flag = flag(trimmed).map_or_else(|| text.into(), Value::from);
        let yaml: Value = parse_yaml(trimmed).unwrap_or_else(|_| text.into());
        let readings = [text.into(), flag, word.into(), yaml.clone()];
        let is_accepted = |value: &Value| self.with_value(key, value).is_some();
        readings.into_iter().find(is_accepted).unwrap_or(yaml)
    }

    /// Reads the merged layers and checks every setting.
    fn finish(mut self) -> Result<(Config, Provenance), ConfigError> {
        self.apply_debug();
        let (tree, origins) = self.typed_values();
        let defect = |error: serde_json::Error| ConfigError::Defaults(error.to_string());
        let config: Config = serde_json::from_value(tree).map_err(defect)?;
        self.check_ranges(&config);
        if self.problems.is_empty() {
            Ok((config, origins))
        } else {
            Err(ConfigError::Invalid(self.problems))
        }
    }

    /// Lowers the log level if `debug` is set and the level is not.
    fn apply_debug(&mut self) {
        if self.value("debug") == true && self.origin("log.level") == Origin::Default {
            self.set("log.level", "debug".into(), Origin::Implied("debug"));
        }
    }

    /// Returns all values, with the default in the place of each value that its type refuses, and all origins. The other
    /// values can then still be checked.
    fn typed_values(&mut self) -> (Value, Provenance) {
        let mut tree = self.defaults.clone();
        let mut origins = Provenance::new();
        for setting @ Setting { key, .. } in SETTINGS.iter() {
            let value = self.value(key);
            let origin = self.origin(key);
            if origin != Origin::Default && self.with_value(key, &value).is_none() {
                self.problems.push(self.refused(setting));
            } else if let Some(leaf) = tree.pointer_mut(&pointer(key)) {
                *leaf = value;
            }
            origins.insert(key.clone(), origin);
        }
        (tree, origins)
    }

    /// Adds a problem for each setting that is out of range.
    fn check_ranges(&mut self, config: &Config) {
        let Err(report) = config.validate() else {
            return;
        };
        let paths: Vec<_> = report.iter().map(|(path, _)| path.to_string()).collect();
        // An error inside a list has a path such as `preprocess.mean[1]`.
        let keys: Vec<_> = paths
            .iter()
            .filter_map(|path| path.split('[').next())
            .collect();
        let settings = SETTINGS
            .iter()
            .filter(|setting| keys.contains(&&*setting.key));
        let problems: Vec<_> = settings.map(|setting| self.refused(setting)).collect();
        self.problems.extend(problems);
    }

    fn refused(&self, setting: &Setting) -> SettingError {
        let value = if setting.is_secret() {
            "(hidden)".to_owned()
        } else {
            match self.value(&setting.key) {
                Value::String(text) => Value::from(mask_url(&text)).to_string(),
                value => value.to_string(),
            }
        };
        SettingError::Value {
            key: setting.key.clone(),
            value,
            origin: self.origin(&setting.key),
            allowed: setting.allowed().to_owned(),
        }
    }

    /// Returns the defaults with one other value, if its type accepts the value. Deserializes a whole [`Config`], so that
    /// the field's own type decides.
    pub(super) fn with_value(&self, key: &str, value: &Value) -> Option<Config> {
        let mut tree = self.defaults.clone();
        *tree.pointer_mut(&pointer(key))? = value.clone();
        Config::deserialize(tree).ok()
    }

    fn set(&mut self, key: &str, value: Value, origin: Origin) {
        self.values.insert(key.to_owned(), (value, origin));
    }

    fn value(&self, key: &str) -> Value {
        let set = self.values.get(key).map(|(value, _)| value);
        let value = set.or_else(|| self.defaults.pointer(&pointer(key)));
        value.cloned().unwrap_or_default()
    }

    fn origin(&self, key: &str) -> Origin {
        let set = self.values.get(key);
        set.map_or(Origin::Default, |(_, origin)| origin.clone())
    }
}

/// Parses a YAML mapping. An empty document is an empty mapping.
fn parse_mapping(text: &str) -> Result<Mapping, String> {
    let mapping: Option<_> = parse_yaml(text)?;
    Ok(mapping.unwrap_or_default())
}

/// Parses YAML 1.2, in which `no` is a string and not false. Errors do not quote the text, because it may contain a
/// secret.
fn parse_yaml<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T, String> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options)
        .map_err(|error| error.render_with_formatter(&UserMessageFormatter))
}
