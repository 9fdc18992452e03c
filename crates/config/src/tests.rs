//! Tests that the defaults file, its comments and the structs agree.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{
    load::Loader,
    schema::{DEFAULTS, SETTINGS, Setting},
    *,
};

/// Loads the variables of an environment.
pub(super) fn load(variables: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let variables = variables
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let sources = Sources {
        environment: variables.collect(),
        ..Sources::default()
    };
    Config::load(&sources).map(|(config, _)| config)
}

fn setting(key: &str) -> &'static Setting {
    SETTINGS.iter().find(|setting| setting.key == key).unwrap()
}

fn is_accepted(key: &str, text: &str) -> bool {
    load(&[(setting(key).variable().as_str(), text)]).is_ok()
}

/// Returns every leaf of a tree with its full key.
fn leaves(section: &str, tree: &Map<String, Value>) -> Vec<(String, Value)> {
    let of = |(name, value): (&String, &Value)| match value {
        Value::Object(inner) => leaves(&format!("{section}{name}."), inner),
        leaf => vec![(format!("{section}{name}"), leaf.clone())],
    };
    tree.iter().flat_map(of).collect()
}

#[test]
fn the_defaults_file_has_exactly_the_fields() {
    let config = Config::load(&Sources::default()).unwrap().0;
    let typed = serde_json::from_str(&serde_json::to_string(&config).unwrap()).unwrap();
    let typed = leaves("", &typed);
    let defaults = leaves("", &serde_saphyr::from_str(DEFAULTS).unwrap());
    let keys = |leaves: &[(String, Value)]| -> Vec<String> {
        leaves.iter().map(|(key, _)| key.clone()).collect()
    };
    assert_eq!(keys(&typed), keys(&defaults), "same keys, same order");
    assert_eq!(typed, defaults, "the types change no value");
    let settings: Vec<_> = SETTINGS.iter().map(|setting| setting.key.clone()).collect();
    assert_eq!(settings, keys(&defaults), "the list has every setting");
    assert_eq!(config.settings().unwrap(), defaults);
}

#[test]
fn environment_names_are_distinct() {
    let names: BTreeSet<String> = SETTINGS.iter().map(Setting::variable).collect();
    assert_eq!(names.len(), SETTINGS.len());
    assert!(names.contains("FACESCAN__DETECTION__MIN_SCORE"));
    assert!(names.contains("FACESCAN__DATA_DIR"));
    let short: BTreeSet<&str> = short_names().map(|(name, _)| name).collect();
    assert_eq!(short.len(), short_names().count());
}

#[test]
fn the_type_of_a_setting_decides_how_its_text_is_read() {
    let loader = Loader::new().unwrap();
    for (key, text, value) in [
        ("debug", "1", json!(true)),
        ("debug", "Off", json!(false)),
        ("debug", "maybe", json!("maybe")),
        ("debug", "", json!(null)),
        ("devices.batch_size", "1", json!(1)),
        ("imaging.background", "[1, 2,3]", json!([1, 2, 3])),
        ("detection.min_score", "0.5", json!(0.5)),
        ("detection.min_score", "null", json!(null)),
        ("imaging.background", "[1,", json!("[1,")),
        ("devices.backend", " CUDA ", json!("cuda")),
        ("devices.backend", "1", json!(1)),
        ("models.detector", "123", json!("123")),
        ("models.detector", "no", json!("no")),
    ] {
        assert_eq!(loader.parse_text(key, text), value, "{key} {text:?}");
    }
}

#[test]
fn the_secrets_are_the_settings_that_debug_hides() {
    const PROBE: &str = "neverprinted";
    let loader = Loader::new().unwrap();
    for setting in SETTINGS.iter() {
        // The type of a secret accepts every text.
        let config = loader.with_value(&setting.key, &PROBE.into());
        let is_hidden = config.is_some_and(|config| !format!("{config:?}").contains(PROBE));
        assert_eq!(setting.is_secret(), is_hidden, "{}", setting.key);
    }
}

/// A secret, and the setting beside it that some settings need.
const PROBE: &str = "Never-Printed-0123456789-0123456789";
const BESIDE: (&str, &str) = ("FACESCAN__OPENID__AUDIENCE", "facescan");

/// Values with a secret: a text, and URLs that have it as the password and in the query.
fn values_with_a_secret() -> Vec<String> {
    let urls = ["postgres", "nats", "s3", "https"]
        .iter()
        .flat_map(|scheme| {
            let place = "127.0.0.1:1/a";
            [
                format!("{scheme}://ann:{PROBE}@{place}"),
                format!("{scheme}://{place}?api_key={PROBE}"),
            ]
        });
    urls.chain([PROBE.to_owned()]).collect()
}

/// Every setting that can have a secret is one that nothing prints: a new one must be in the list of `Config::secrets`.
#[test]
fn every_secret_of_the_settings_is_hidden_and_redacted() {
    let mut with_secrets = BTreeSet::new();
    let defaults = leaves("", &serde_saphyr::from_str(DEFAULTS).unwrap());
    let is_scalar = |value: &Value| value.is_number() || value.is_boolean();
    let no_scalars = SETTINGS
        .iter()
        .zip(defaults)
        .filter(|(_, (_, value))| !is_scalar(value));
    for (setting, _) in no_scalars {
        let variable = setting.variable();
        let accepted = |text: &str| load(&[BESIDE, (variable.as_str(), text)]).ok();
        // A name or a path can be any text, and is shown. A setting that refuses this one is a URL.
        if accepted("a").is_some() && !setting.is_secret() {
            continue;
        }
        // The whole text of a key is the secret.
        let is_key = accepted(PROBE).is_some();
        for text in values_with_a_secret() {
            let Some(config) = accepted(&text) else {
                continue;
            };
            with_secrets.insert(&setting.key);
            let shown = serde_json::to_string(&config).unwrap();
            assert!(!shown.contains(PROBE), "{}={text}: {shown}", setting.key);
            let secret = if is_key { &text } else { PROBE };
            let is_redacted = config.secrets().contains(secret);
            assert!(is_redacted, "{}={text} would be logged", setting.key);
        }
    }
    let secrets = SETTINGS.iter().filter(|setting| setting.is_secret());
    for setting in secrets {
        let is_checked = with_secrets.contains(&setting.key);
        assert!(is_checked, "this test has no value for {}", setting.key);
    }
    // Those, and the URLs that are shown without their secrets.
    assert!(with_secrets.len() >= 12, "{with_secrets:?}");
}

#[test]
fn the_comment_of_every_setting_says_what_is_allowed() {
    for setting in SETTINGS.iter() {
        assert!(!setting.allowed().is_empty(), "{}", setting.key);
    }
}

/// The range at a field equals the range in the comment of `configs/config.yaml`. A range that this test cannot read has
/// a line in [`RANGES`].
#[test]
fn the_documented_range_is_the_checked_range() {
    let ranges = ranges();
    // The maximum of this setting exceeds the default of `devices.breaker_max_cooldown_ms`.
    let others = |setting: &&Setting| setting.key != "devices.breaker_cooldown_ms";
    for setting in SETTINGS.iter().filter(others) {
        let (key, allowed) = (&setting.key, setting.allowed());
        let Some((low, high)) = range_of_number(allowed) else {
            let has_range = allowed.contains(" from ") || allowed.contains(" above ");
            let is_tested = ranges.contains_key(key);
            assert!(is_tested || !has_range, "{key} has a range without a test");
            continue;
        };
        for (value, is_allowed) in [
            (low - 1, false),
            (low, true),
            (high, true),
            (high + 1, false),
        ] {
            let text = value.to_string();
            assert_eq!(is_accepted(key, &text), is_allowed, "{key}={text}");
        }
    }
}

/// Returns the ends of a range such as `a whole number from 1 to 1024`.
fn range_of_number(allowed: &str) -> Option<(i64, i64)> {
    let (_, range) = allowed.split_once("number from ")?;
    let (low, high) = range.split_once(" to ")?;
    let high = high.split([' ', ',']).next()?;
    Some((low.parse().ok()?, high.parse().ok()?))
}

/// The allowed and the refused values of each setting, as the text of a variable.
const RANGES: &str = r#"
server.host: [['0.0.0.0', 'localhost', '::1'], ['', 'a b', 'http://a']]
server.port: [['0', '65535'], ['-1', '65536', '80.5']]
traces.endpoint: [['', 'http://collector:4318/v1/traces'], ['collector:4318', 'grpc://collector']]
traces.authorization: [['', 'Bearer a'], ['Bearer ü']]
log.level: [['off', 'INFO', 'info,facescan=debug', 'facescan[request]=trace'], ['', 'verbose', 'info,', 'info,verbose', 'facescan=loud']]
log.format: [['JSON', 'pretty'], ['xml', '']]
imaging.background: [['[0, 128, 255]'], ['[0, 0]', '[0, 0, 256]', 'white']]
batching.max_queue_delay_ms: [['0', '0.5', '1000'], ['-1', '1001']]
runtime.dir: [['', '/opt/facescan'], ['facescan', '.']]
runtime.library: [['', 'null', '/opt/libonnxruntime.so'], []]
runtime.plugins_dir: [['/opt/plugins'], ['']]
runtime.turbojpeg: [['', '/usr/lib/libturbojpeg.so.0'], []]
cpu.provider: [['auto', 'default', 'openvino'], ['mlas', '']]
runtime.shipped_dir: [['.'], ['']]
models.dir: [['models'], ['']]
models.registry: [['', 'my.yaml'], []]
models.detector: [['scrfd'], ['', ' ']]
models.embedder: [['arcface'], ['', ' ']]
models.encoder: [['', 'clip'], []]
detection.det_size: [['64', '4096', 'fit'], ['32', '4128', '650', 'fat']]
detection.second_det_size: [['', '64', '608'], ['32', '640', '100']]
detection.decode: [['full', 'fast'], ['half']]
detection.padding: [['minimal', 'square'], ['', 'none']]
detection.min_score: [['0', '1'], ['-0.1', '1.1', '.nan']]
detection.nms_iou: [['0', '1'], ['-0.1', '1.1']]
preprocess.image_size: [['[1, 8192]'], ['[0, 224]', '[224, 8193]', '224']]
preprocess.mean: [['[0, 0.5, 1]'], ['[-0.1, 0, 0]', '[0, 0, 1.1]', '[0, 0]']]
preprocess.std: [['[0.1, 1, 2]'], ['[0, 1, 1]', '[1, 1, -1]', '1']]
preprocess.pad: [['[0, 128, 255]'], ['[0, 0, 256]', '[0, 0]']]
embedding.format: [['float', 'base64-f32', 'base64-f16'], ['base64']]
recognition.verify_far: [['0.000001', '1'], ['0', '-0.1', '1.1', '.nan']]
recognition.purposes: [['[]', '[entry control]'], ['entry control', '[""]']]
recognition.search_far: [['0.000001', '1'], ['0', '-0.1', '1.1', '.nan']]
audit.secret: [['', '0123456789abcdef0123456789abcdef'], ['0123456789abcdef0123456789abcde']]
audit.heads: [['', 'file:///a/b.jsonl', 's3://a/b', 'https://a/b'], ['a', 'file://', 'nats://a']]
recognition.max_search_far: [['0.000001', '1'], ['0', '-0.1', '1.1', '.nan']]
recognition.index: [['EXACT', 'pgvector', 'qdrant'], ['', 'auto']]
qdrant.url: [['', 'http://localhost:6334', 'https://qdrant.example.com:6334'], ['localhost:6334', 'grpc://a']]
qdrant.api_key: [['', 'k e-y'], ["a\nb", 'é']]
qdrant.prefix: [['a', 'face-scan_2'], ['', 'a/b', 'é', 'a.b']]
quality.preset: [['enroll', 'verify', 'search'], ['enlist']]
enhancement.format: [['png', 'webp'], ['gif']]
enhancement.identity_threshold: [['-1', '1'], ['-1.1', '1.1']]
devices.all_gpu: [['1', 'NO', 'on'], ['2', '']]
devices.backend: [['CUDA', 'migraphx', 'tensorrt'], ['vulkan']]
devices.memory_limit_gb: [['', '0.5', '4096'], ['0', '4097']]
devices.face_detection_on: [['cuda:1', ''], ['gpu']]
devices.face_embedding_on: [['cpu'], ['cuda:x']]
devices.image_processing_on: [['webgpu'], [':1']]
devices.image_enhancement_on: [['rocm:0'], ['0']]
devices.quality_checks_on: [['auto'], ['cuda:-1']]
devices.breaker_cooldown_ms: [['1'], ['0', '300001']]
devices.breaker_max_cooldown_ms: [['5000', '86400000'], ['4999', '86400001']]
store.tenant: [['a', 'a-b_c.9'], ['', 'a/b', 'é']]
urls.enabled: [['false', 'true'], ['maybe']]
urls.schemes: [['[https]', '[https, http]'], ['[]', '[ftp]', 'https']]
urls.hosts: [['[]', '["*.example.com", example.org, "[::1]"]'], ['["*"]', '[a b]', 'example.org', '[""]', '["*."]', '["a.*.com"]', '["https://a.com"]', '[a.com/b]', '["a.com:80"]', '["*.192.0.2.1"]']]
urls.user_agent: [['a/1 (b)'], ['', 'é', "a\nb"]]
database.url: [['', 'sqlite::memory:', 'postgres://a/b', 'postgresql://a'], ['mysql://a/b', 'postgres://', 'faces.sqlite']]
"#;

fn ranges() -> BTreeMap<String, [Vec<String>; 2]> {
    serde_saphyr::from_str(RANGES).unwrap()
}

#[test]
fn a_range_includes_its_ends_and_nothing_outside() {
    for (key, [good, bad]) in &ranges() {
        for text in good {
            assert!(is_accepted(key, text), "{key}={text} is allowed");
        }
        for text in bad {
            assert!(!is_accepted(key, text), "{key}={text} is not allowed");
        }
    }
}
