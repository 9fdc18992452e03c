//! The list of settings, read from `configs/config.yaml`.
//!
//! The comment above a setting ends with `Allowed:` and the allowed values. Before that, the comment can name variables
//! after `Short name:` and `Other variable:`, and a second key in a file after `Other key:`. `Secret.` hides the value in
//! errors.

use std::{mem, sync::LazyLock};

use facescan_fields::nearest;

/// The variable that names the configuration file if the command line names none.
pub const CONFIG_FILE: &str = "FACESCAN_CONFIG";

/// The prefix of the long name of every variable. The loader refuses an unknown name with this prefix.
pub const PREFIX: &str = "FACESCAN__";

/// The built-in defaults, as a commented YAML file.
pub const DEFAULTS: &str = include_str!("../../../configs/config.yaml");

/// Every setting, in the order of `configs/config.yaml`.
pub(super) static SETTINGS: LazyLock<Vec<Setting>> = LazyLock::new(|| read(DEFAULTS));

/// One setting.
pub(super) struct Setting {
    /// The full key, such as `detection.min_score`.
    pub(super) key: String,
    comment: String,
}

impl Setting {
    /// Returns the allowed values as text.
    pub(super) fn allowed(&self) -> &str {
        let words = self.after("Allowed: ");
        words.strip_suffix('.').unwrap_or(words)
    }

    /// Returns whether errors hide the value.
    pub(super) fn is_secret(&self) -> bool {
        self.comment.contains("Secret.")
    }

    /// Returns the long name of the variable, such as `FACESCAN__DETECTION__MIN_SCORE`.
    pub(super) fn variable(&self) -> String {
        PREFIX.to_owned() + &self.key.replace('.', "__").to_ascii_uppercase()
    }

    /// Returns whether a variable without the prefix sets this setting.
    fn has_name(&self, name: &str) -> bool {
        let mut names = self
            .list("Short name: ")
            .chain(self.list("Other variable: "));
        names.any(|own| own == name)
    }

    /// Returns the names after a label, up to the end of the sentence.
    fn list(&self, label: &str) -> impl Iterator<Item = &str> {
        let sentence = self.after(label).split(". ").next().unwrap_or_default();
        sentence.split(", ").filter(|name| !name.is_empty())
    }

    fn after(&self, label: &str) -> &str {
        self.comment.split_once(label).map_or("", |(_, rest)| rest)
    }
}

/// Returns the variables with a short name, and the keys of the settings that they set.
pub fn short_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    SETTINGS.iter().flat_map(|setting| {
        let names = setting.list("Short name: ");
        names.map(|name| (name, setting.key.as_str()))
    })
}

/// Returns whether the configuration reads a variable of this name or refuses it.
pub(super) fn is_known_variable(name: &str) -> bool {
    let is_short = || SETTINGS.iter().any(|setting| setting.has_name(name));
    name == CONFIG_FILE
        || name.starts_with(PREFIX)
        || is_short()
        || with_single_underscores(name).is_some()
}

/// Returns the setting whose long name is written with one underscore in the place of two, such as `FACESCAN_SERVER_PORT`.
pub(super) fn with_single_underscores(name: &str) -> Option<&'static Setting> {
    // Most variables of a machine have nothing to do with this program.
    if !name.starts_with("FACESCAN_") {
        return None;
    }
    let is_meant = |setting: &&Setting| setting.variable().replace("__", "_") == name;
    SETTINGS.iter().find(is_meant)
}

/// Returns whether Kubernetes sets a variable to this value for a service, such as `FACESCAN_SERVER_PORT` for a service called
/// `facescan-server`.
pub(super) fn is_address_of_service(value: &str) -> bool {
    ["tcp://", "udp://", "sctp://"]
        .iter()
        .any(|scheme| value.starts_with(scheme))
}

/// Returns the setting that a variable sets.
pub(super) fn of_variable(name: &str) -> Option<&'static Setting> {
    let sets = |setting: &&Setting| setting.variable() == name || setting.has_name(name);
    SETTINGS.iter().find(sets)
}

/// Returns the setting of a full key in a file.
pub(super) fn of_key(key: &str) -> Option<&'static Setting> {
    let has_key = |setting: &Setting| setting.list("Other key: ").any(|other| other == key);
    SETTINGS
        .iter()
        .find(|setting| setting.key == key || has_key(setting))
}

/// Returns whether a key is a section.
pub(super) fn is_section(key: &str) -> bool {
    let inside = format!("{key}.");
    SETTINGS
        .iter()
        .any(|setting| setting.key.starts_with(&inside))
}

/// Suggests a setting for an unknown key. It is the setting with the same last part, or else one with a similar name.
pub(super) fn suggest(key: &str) -> Option<&'static Setting> {
    let last = |key: &str| key.rsplit('.').next().map(str::to_owned);
    let has_same_part = |setting: &&Setting| last(&setting.key) == last(key);
    let same = SETTINGS.iter().filter(has_same_part);
    same.min_by_key(|setting| setting.key.clone()).or_else(|| {
        let nearest = nearest(key, SETTINGS.iter().map(|setting| setting.key.as_str()))?;
        SETTINGS.iter().find(|setting| setting.key == nearest)
    })
}

/// Reads the settings and their comments. Each setting is on one line, indented below its section.
fn read(yaml: &str) -> Vec<Setting> {
    let (mut settings, mut section, mut comment) = (Vec::new(), "", String::new());
    for line in yaml.lines() {
        if let Some(words) = line.trim_start().strip_prefix('#') {
            comment += words;
            continue;
        }
        let comment = mem::take(&mut comment);
        let key = match line.split_once(':') {
            None => continue,
            Some((name, "")) => {
                section = name;
                continue;
            }
            Some((name, _)) => match name.strip_prefix("  ") {
                Some(name) => format!("{section}.{name}"),
                None => name.to_owned(),
            },
        };
        settings.push(Setting { key, comment });
    }
    settings
}

/// Returns the JSON pointer of a full key. No key contains a slash or a tilde.
pub(super) fn pointer(key: &str) -> String {
    format!("/{}", key.replace('.', "/"))
}
