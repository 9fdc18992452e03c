//! The layers that are variables: their names, and their text as values.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::{
    Origin, Problem,
    layers::{Layers, suggest, yaml_options},
    rule::{Kind, Rule},
    rules,
};

/// What the long name of every setting begins with.
///
/// A name with this prefix that is no setting is refused. Names with one underscore are left alone:
/// Kubernetes puts `FACESCAN_PORT` and the like beside a service called `facescan`.
pub const PREFIX: &str = "FACESCAN__";

/// The variable that names the configuration file where the command line does not.
pub const CONFIG_FILE: &str = "FACESCAN_CONFIG";

/// The variables with a short name, and the settings that they set.
pub const SHORT_NAMES: [(&str, &str); 28] = [
    ("ALL_GPU", "devices.all_gpu"),
    ("FACE_DETECTION_GPU", "devices.face_detection"),
    ("FACE_EMBEDDING_GPU", "devices.face_embedding"),
    ("IMAGE_PROCESSING_GPU", "devices.image_processing"),
    ("IMAGE_ENHANCEMENT_GPU", "devices.image_enhancement"),
    ("QUALITY_CHECKS_GPU", "devices.quality_checks"),
    ("IMAGE_EMBEDDING_GPU", "devices.image_embedding"),
    ("GPU_BACKEND", "devices.backend"),
    ("GPU_DEVICE_ID", "devices.device_id"),
    ("GPU_MEMORY_LIMIT_GB", "devices.memory_limit_gb"),
    ("GPU_BATCH_SIZE", "devices.batch_size"),
    ("PREPROCESS_IMAGE_SIZE", "preprocess.image_size"),
    ("PREPROCESS_MEAN", "preprocess.mean"),
    ("PREPROCESS_STD", "preprocess.std"),
    ("PREPROCESS_BATCH_SIZE", "preprocess.batch_size"),
    ("PREPROCESS_NUM_WORKERS", "preprocess.num_workers"),
    ("PREPROCESS_DATA_FORMAT", "preprocess.data_format"),
    ("PREPROCESS_PROFILE", "preprocess.profile"),
    ("PREPROCESS_MODE", "preprocess.mode"),
    ("PREPROCESS_PAD", "preprocess.pad"),
    ("PREPROCESS_DTYPE", "preprocess.dtype"),
    ("PREPROCESS_USE_GPU", "preprocess.use_gpu"),
    ("PREPROCESS_PLATFORM", "preprocess.platform"),
    ("PREPROCESS_STRICT", "preprocess.strict"),
    ("PREPROCESS_WARM_UP", "preprocess.warm_up"),
    ("LOG_LEVEL", "log.level"),
    ("DEBUG", "debug"),
    ("DATABASE_URL", "database.url"),
];

/// Variables by the names that other tools gave them, and the settings that they set.
const OTHER_NAMES: [(&str, &str); 2] = [
    ("JAX_USE_GPU", "preprocess.use_gpu"),
    ("JAX_PLATFORM", "preprocess.platform"),
];

/// The setting of a variable's short or other name.
fn key_of(name: &str) -> Option<&'static str> {
    SHORT_NAMES
        .iter()
        .chain(&OTHER_NAMES)
        .find_map(|(short, key)| (*short == name).then_some(*key))
}

/// Whether the configuration reads a variable of this name, or refuses it.
pub(super) fn concerns_us(name: &str) -> bool {
    name == CONFIG_FILE || name.starts_with(PREFIX) || key_of(name).is_some()
}

/// Puts a layer of variables on top. `origin` says where a variable of a name came from, `place` names
/// the layer.
pub(super) fn overlay(
    layers: &mut Layers,
    variables: &BTreeMap<String, String>,
    place: &str,
    origin: fn(String) -> Origin,
) {
    let mut seen: HashMap<&str, (Value, Origin)> = HashMap::new();
    for (name, text) in variables {
        let Some(rule) = rule_of(name) else {
            if name.starts_with(PREFIX) {
                layers.report(Problem::Unknown {
                    name: name.clone(),
                    place: place.to_owned(),
                    suggestion: suggest_variable(name),
                });
            }
            continue;
        };
        let value = parse(rule.kind, text);
        let origin = origin(name.clone());
        match seen.get(rule.key) {
            Some((other, first)) if *other != value => layers.report(Problem::Conflict {
                key: rule.key.to_owned(),
                first: first.clone(),
                second: origin,
            }),
            Some(_) => {}
            None => {
                seen.insert(rule.key, (value.clone(), origin.clone()));
                layers.set(rule.key, value, origin);
            }
        }
    }
}

/// `debug` sets the log level where no layer does.
pub(super) fn imply_level(layers: &mut Layers) {
    let debug = layers.get("debug") == Some(&Value::Bool(true));
    if debug && layers.origin("log.level") == Some(&Origin::Default) {
        layers.set("log.level", "debug".into(), Origin::Implied("debug"));
    }
}

/// The rule of the setting that a variable sets, by its short or its long name.
fn rule_of(name: &str) -> Option<&'static Rule> {
    match key_of(name) {
        Some(key) => rules().find(|rule| rule.key == key),
        None => rules().find(|rule| rule.env_name() == name),
    }
}

/// The long name that was probably meant.
fn suggest_variable(name: &str) -> Option<String> {
    let key = name.strip_prefix(PREFIX)?.to_ascii_lowercase();
    let meant = suggest(&key.replace("__", "."))?;
    rules().find(|rule| rule.key == meant).map(Rule::env_name)
}

/// The value of a variable's text. Text that does not suit the setting stays text, which the typed
/// structs then refuse together with the other mistakes.
fn parse(kind: Kind, text: &str) -> Value {
    let trimmed = text.trim();
    if trimmed.is_empty() || trimmed == "null" {
        return Value::Null;
    }
    match kind {
        Kind::Flag => match trimmed.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => true.into(),
            "false" | "0" | "no" | "off" => false.into(),
            _ => text.into(),
        },
        Kind::Yaml => serde_saphyr::from_str_with_options(trimmed, yaml_options())
            .unwrap_or_else(|_| text.into()),
        Kind::Choice => trimmed.to_ascii_lowercase().into(),
        Kind::Text | Kind::Secret => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_is_read_by_the_kind_of_its_setting() {
        for (kind, text, value) in [
            (Kind::Flag, "1", json!(true)),
            (Kind::Flag, "Off", json!(false)),
            (Kind::Flag, "maybe", json!("maybe")),
            (Kind::Flag, "", json!(null)),
            (Kind::Yaml, "[1, 2,3]", json!([1, 2, 3])),
            (Kind::Yaml, "0.5", json!(0.5)),
            (Kind::Yaml, "null", json!(null)),
            (Kind::Yaml, "[1,", json!("[1,")),
            (Kind::Choice, " CUDA ", json!("cuda")),
            (Kind::Text, "123", json!("123")),
            (Kind::Text, "no", json!("no")),
        ] {
            assert_eq!(parse(kind, text), value, "{kind:?} {text:?}");
        }
    }
}
