//! Merging the layers into one tree, and the tree into a [`Config`].

use std::{collections::BTreeMap, path::Path};

use serde_json::{Map, Value};
use serde_saphyr::UserMessageFormatter;

use super::{
    Config, ConfigError, Origin, Problem, Provenance,
    rule::{Kind, Rule},
    rules,
    variables::imply_level,
};

/// The defaults, which also say which settings there are: a leaf of this tree is a setting, an inner
/// node a section.
const DEFAULTS: &str = include_str!("../../configs/config.yaml");

/// What the layers so far add up to.
///
/// No `Debug`: the tree holds secrets in plain text.
pub(super) struct Layers {
    defaults: Map<String, Value>,
    tree: Value,
    origins: BTreeMap<String, Origin>,
    problems: Vec<Problem>,
}

impl Layers {
    /// The lowest layer.
    pub(super) fn defaults() -> Result<Self, ConfigError> {
        let defaults = parse_mapping(DEFAULTS).map_err(ConfigError::Defaults)?;
        let mut origins = BTreeMap::new();
        for_each_leaf("", &defaults, &mut |key, _| {
            origins.insert(key, Origin::Default);
        });
        Ok(Self {
            tree: Value::Object(defaults.clone()),
            defaults,
            origins,
            problems: Vec::new(),
        })
    }

    /// Puts a YAML file on top.
    pub(super) fn overlay_file(&mut self, path: &Path, text: &str) -> Result<(), ConfigError> {
        let mapping = parse_mapping(text).map_err(|message| ConfigError::Yaml {
            path: path.to_owned(),
            message,
        })?;
        let defaults = self.defaults.clone();
        self.overlay_mapping(path, "", &defaults, mapping);
        Ok(())
    }

    fn overlay_mapping(
        &mut self,
        path: &Path,
        section: &str,
        known: &Map<String, Value>,
        mapping: Map<String, Value>,
    ) {
        for (name, value) in mapping {
            let name = present_name(section, name);
            let key = join(section, &name);
            match (known.get(&name), value) {
                (None, _) => {
                    let suggestion = suggest(&key).map(str::to_owned);
                    self.report(Problem::Unknown {
                        name: key,
                        place: path.display().to_string(),
                        suggestion,
                    });
                }
                // A section whose settings are all commented out is null.
                (Some(Value::Object(_)), Value::Null) => {}
                (Some(Value::Object(inner)), Value::Object(mapping)) => {
                    self.overlay_mapping(path, &key, inner, mapping);
                }
                (Some(Value::Object(_)), _) => self.report(Problem::NotASection {
                    key,
                    path: path.to_owned(),
                }),
                (Some(_), value) => self.set(&key, value, Origin::File(path.to_owned())),
            }
        }
    }

    /// Sets one setting, by the full key of a rule.
    pub(super) fn set(&mut self, key: &str, value: Value, origin: Origin) {
        if let Some(leaf) = self.tree.pointer_mut(&pointer(key)) {
            *leaf = value;
            self.origins.insert(key.to_owned(), origin);
        }
    }

    /// The value of a setting so far.
    pub(super) fn get(&self, key: &str) -> Option<&Value> {
        self.tree.pointer(&pointer(key))
    }

    /// Where the value of a setting came from so far.
    pub(super) fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.get(key)
    }

    /// Notes a problem; the load fails with all of them at its end.
    pub(super) fn report(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// Deserialises the tree and checks every setting.
    pub(super) fn finish(mut self) -> Result<(Config, Provenance), ConfigError> {
        imply_level(&mut self);
        let config = self.deserialise()?;
        for rule in rules() {
            // A value of the wrong type is reported already, and its default stands in for it.
            if !(rule.holds)(&config) {
                let problem = self.bad_value(rule)?;
                self.report(problem);
            }
        }
        if self.problems.is_empty() {
            let origins = self.origins;
            Ok((config, Provenance { origins }))
        } else {
            Err(ConfigError::Invalid(self.problems))
        }
    }

    /// Deserialises the tree. serde stops at the first value of a wrong type: it is reported and replaced
    /// by its default, and the rest is tried again, so that one run finds them all.
    fn deserialise(&mut self) -> Result<Config, ConfigError> {
        loop {
            let error = match serde_path_to_error::deserialize(&self.tree) {
                Ok(config) => return Ok(config),
                Err(error) => error,
            };
            let path = error.path().to_string();
            let rule = rules()
                .find(|rule| is_at(&path, rule.key))
                .ok_or_else(|| ConfigError::Defaults(error.to_string()))?;
            let problem = self.bad_value(rule)?;
            let default = Value::Object(self.defaults.clone())
                .pointer(&pointer(rule.key))
                .cloned()
                .unwrap_or_default();
            self.report(problem);
            self.set(rule.key, default, Origin::Default);
        }
    }

    /// The problem of a setting's present value.
    fn bad_value(&self, rule: &Rule) -> Result<Problem, ConfigError> {
        match (self.get(rule.key), self.origins.get(rule.key)) {
            (Some(value), Some(origin)) if *origin != Origin::Default => Ok(Problem::Value {
                key: rule.key.to_owned(),
                value: match rule.kind {
                    Kind::Secret => "(hidden)".to_owned(),
                    _ => value.to_string(),
                },
                origin: origin.clone(),
                allowed: rule.allowed,
            }),
            _ => Err(ConfigError::Defaults(format!(
                "{} must be {}",
                rule.key, rule.allowed
            ))),
        }
    }
}

/// Settings by the names that they have elsewhere: the section, the other name, and ours.
const OTHER_NAMES: [(&str, &str, &str); 2] = [
    ("preprocess", "jax_platform", "platform"),
    ("preprocess", "cache_compiled", "warm_up"),
];

fn present_name(section: &str, name: String) -> String {
    OTHER_NAMES
        .iter()
        .find(|(of, other, _)| *of == section && *other == name)
        .map_or(name, |(_, _, ours)| (*ours).to_owned())
}

/// Whether a path of serde is a setting or inside its value, such as `imaging.background[1]`.
fn is_at(path: &str, key: &str) -> bool {
    path.strip_prefix(key)
        .is_some_and(|inside| inside.is_empty() || inside.starts_with(['.', '[']))
}

/// Calls `visit` with the full key and the value of every setting under `section`.
pub(super) fn for_each_leaf(
    section: &str,
    mapping: &Map<String, Value>,
    visit: &mut impl FnMut(String, &Value),
) {
    for (name, value) in mapping {
        let key = join(section, name);
        match value {
            Value::Object(inner) => for_each_leaf(&key, inner, visit),
            leaf => visit(key, leaf),
        }
    }
}

/// The key that was probably meant by one that is unknown: the one with the same last part, or else one
/// that differs in at most a quarter of the letters.
pub(super) fn suggest(key: &str) -> Option<&'static str> {
    fn last(key: &str) -> Option<&str> {
        key.rsplit('.').next()
    }
    let (different, known) = rules()
        .map(|rule| {
            let moved = last(rule.key) == last(key);
            let distance = strsim::damerau_levenshtein(key, rule.key);
            (if moved { 0 } else { distance }, rule.key)
        })
        .min()?;
    (different * 4 <= key.len()).then_some(known)
}

/// Parses a YAML mapping; an empty document is an empty mapping.
fn parse_mapping(text: &str) -> Result<Map<String, Value>, String> {
    let mapping: Option<Map<String, Value>> =
        serde_saphyr::from_str_with_options(text, yaml_options())
            .map_err(|error| error.render_with_formatter(&UserMessageFormatter))?;
    Ok(mapping.unwrap_or_default())
}

/// YAML 1.2, where `no` is a word and not false. Errors do not quote the lines around them, which may hold
/// a secret.
pub(super) fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! { strict_booleans: true, with_snippet: false }
}

fn join(section: &str, name: &str) -> String {
    if section.is_empty() {
        name.to_owned()
    } else {
        format!("{section}.{name}")
    }
}

/// The JSON pointer of a full key. No setting's name has a dot, a slash or a tilde.
fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
}
