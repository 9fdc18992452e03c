//! Configurations.

use std::{collections::BTreeMap, io::Write, sync::LazyLock};

use facescan_config::{Config, Sources};
use serde_json::{Map, Value};
use tempfile::NamedTempFile;

/// The line between the parts of an input: the file, `.env` and the environment.
const SEPARATOR: &str = "\n%%\n";

/// Settings whose value may be a secret.
const SECRETS: [&str; 2] = ["database.url", "batches.queue"];

/// The variables of these settings.
const SECRET_VARIABLES: [&str; 3] = [
    "DATABASE_URL",
    "FACESCAN__DATABASE__URL",
    "FACESCAN__BATCHES__QUEUE",
];

/// A password is looked for in what the server prints if it has this many bytes. A shorter one could be there by chance.
const MIN_PASSWORD: usize = 8;

static DEFAULTS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let (config, _) = Config::load(&Sources::default()).expect("the defaults are valid");
    let settings = config.settings().expect("every setting has a value");
    settings.into_iter().map(|(_, value)| value).collect()
});

/// A configuration that loads has a value for each setting. The values, written to a file, load as the same configuration.
/// No error and no setting shows a password.
pub fn config(input: &[u8]) {
    let Ok(input) = str::from_utf8(input) else {
        return;
    };
    let mut parts = input.splitn(3, SEPARATOR);
    let mut part = || parts.next().unwrap_or_default();
    let (yaml, dotenv, environment) = (part(), part(), part());
    let environment: BTreeMap<String, String> = environment
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let passwords: Vec<&str> = SECRET_VARIABLES
        .iter()
        .filter_map(|name| password(environment.get(*name)?))
        .collect();
    // A password that is elsewhere in the input, too, may be shown there.
    let is_secret =
        |password: &&&str| password.len() >= MIN_PASSWORD && input.matches(**password).count() == 1;
    let (file, dotenv) = (written(yaml), written(dotenv));
    let sources = Sources {
        file: Some(file.path().to_owned()),
        dotenv: Some(dotenv.path().to_owned()),
        environment: environment.clone(),
        ..Sources::default()
    };
    let shown = match Config::load(&sources) {
        Err(error) => error.to_string(),
        Ok((config, _)) => {
            let settings = config.settings().expect("every setting has a value");
            check_again(&settings);
            format!("{config:?} {settings:?}")
        }
    };
    for password in passwords.iter().filter(is_secret) {
        assert!(!shown.contains(password), "{password} is in {shown}");
    }
}

/// Loads the values of all settings from a file, and compares. Defaults are not written, because that takes seconds.
fn check_again(settings: &[(String, Value)]) {
    let mut tree = Map::new();
    for ((key, value), default) in settings.iter().zip(DEFAULTS.iter()) {
        if value != default && !SECRETS.contains(&key.as_str()) {
            insert(&mut tree, key, value.clone());
        }
    }
    let file = written(&ascii(&Value::Object(tree)));
    let sources = Sources {
        file: Some(file.path().to_owned()),
        ..Sources::default()
    };
    let (config, _) = Config::load(&sources)
        .unwrap_or_else(|error| panic!("values that were in effect are refused: {error}"));
    let again = config.settings().expect("every setting has a value");
    assert_eq!(settings.len(), again.len());
    for (before, after) in settings.iter().zip(&again) {
        assert!(
            before == after || SECRETS.contains(&before.0.as_str()),
            "{before:?}, then {after:?}"
        );
    }
}

/// Sets the value of a full key, such as `server.port`.
fn insert(tree: &mut Map<String, Value>, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            tree.insert(key.to_owned(), value);
        }
        Some((section, rest)) => {
            let inner = tree
                .entry(section)
                .or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

/// Returns a tree as YAML in ASCII, because YAML refuses some characters that are not escaped.
fn ascii(tree: &Value) -> String {
    tree.to_string()
        .chars()
        .map(|letter| match letter {
            ' '..='~' => letter.to_string(),
            other => format!("\\U{:08X}", u32::from(other)),
        })
        .collect()
}

/// Returns the password of a URL as the database reads it.
fn password(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let (user, _) = rest.rsplit_once('@')?;
    Some(user.split_once(':')?.1)
}

fn written(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("it can be written");
    file
}
