//! The rules, the defaults file and the typed structs say the same.

use std::collections::BTreeSet;

use super::{rule::Kind, *};

const DEFAULTS: &str = include_str!("../../configs/config.yaml");

fn defaults() -> Config {
    Config::load(&Sources::default()).unwrap().0
}

fn default_leaves() -> Vec<(String, Value)> {
    let tree: Map<String, Value> = serde_saphyr::from_str(DEFAULTS).unwrap();
    let mut leaves = Vec::new();
    for_each_leaf("", &tree, &mut |key, value| {
        leaves.push((key, value.clone()))
    });
    leaves
}

#[test]
fn the_defaults_file_has_every_field_and_no_other() {
    let typed = defaults().settings().unwrap();
    let keys = |settings: &[(String, Value)]| -> Vec<String> {
        settings.iter().map(|(key, _)| key.clone()).collect()
    };
    assert_eq!(
        keys(&typed),
        keys(&default_leaves()),
        "same keys, same order"
    );
    assert_eq!(
        typed,
        default_leaves(),
        "a value changes on its way through the types"
    );
}

#[test]
fn every_setting_has_one_rule() {
    let rules: Vec<&str> = rules().map(|rule| rule.key).collect();
    let unique: BTreeSet<&str> = rules.iter().copied().collect();
    assert_eq!(rules.len(), unique.len(), "a setting has two rules");
    let leaves = default_leaves();
    let leaves: BTreeSet<&str> = leaves.iter().map(|(key, _)| key.as_str()).collect();
    assert_eq!(unique, leaves);
}

#[test]
fn environment_names_are_distinct() {
    let names: BTreeSet<String> = rules().map(Rule::env_name).collect();
    assert_eq!(names.len(), rules().count());
    assert!(names.contains("FACESCAN__DETECTION__MIN_SCORE"));
    assert!(names.contains("FACESCAN__DATA_DIR"));
}

/// A choice in the environment is lower-cased, which suits only settings whose default is a word.
#[test]
fn kinds_suit_the_defaults() {
    for (key, value) in default_leaves() {
        let kind = rules().find(|rule| rule.key == key).unwrap().kind;
        let suits = match &value {
            Value::Bool(_) => kind == Kind::Flag,
            Value::Number(_) | Value::Array(_) => kind == Kind::Yaml,
            Value::String(_) => matches!(kind, Kind::Text | Kind::Choice),
            Value::Null => kind != Kind::Choice,
            Value::Object(_) => false,
        };
        assert!(suits, "{key}: {value} with {kind:?}");
    }
}

/// The comment lines directly above a setting, as one text.
fn comment_above(key: &str) -> String {
    let (section, name) = key.split_once('.').unwrap_or(("", key));
    let mut current = "";
    let mut comment: Vec<&str> = Vec::new();
    for line in DEFAULTS.lines() {
        let text = line.trim();
        if let Some(words) = text.strip_prefix('#') {
            comment.push(words.trim());
            continue;
        }
        let word = text.split(':').next().unwrap_or_default();
        if !line.starts_with(' ') {
            current = word;
        }
        let inside = if line.starts_with(' ') { current } else { "" };
        if (inside, word) == (section, name) {
            return comment.join(" ");
        }
        comment.clear();
    }
    String::new()
}

#[test]
fn the_comment_of_every_setting_says_what_is_allowed() {
    for rule in rules() {
        let comment = comment_above(rule.key);
        let allowed = format!("Allowed: {}.", rule.allowed);
        assert!(
            comment.ends_with(&allowed),
            "{}: {comment:?} lacks {allowed:?}",
            rule.key
        );
    }
    for (short, key) in SHORT_NAMES {
        let comment = comment_above(key);
        let name = format!("Short name: {short}.");
        assert!(comment.contains(&name), "{key}: {comment:?} lacks {name:?}");
    }
}

#[test]
fn a_rule_fails_just_outside_its_range_and_holds_at_its_ends() {
    let holds = |key: &str, text: &str| {
        let rule = rules().find(|rule| rule.key == key).unwrap();
        let environment = [(rule.env_name(), text.to_owned())].into();
        let sources = Sources {
            environment,
            ..Sources::default()
        };
        Config::load(&sources).is_ok()
    };
    for (key, good, bad) in [
        (
            "server.host",
            vec!["0.0.0.0", "localhost", "::1"],
            vec!["", "a b", "http://a"],
        ),
        (
            "server.port",
            vec!["0", "65535"],
            vec!["-1", "65536", "80.5"],
        ),
        (
            "server.max_body_bytes",
            vec!["1024", "4294967296"],
            vec!["1023", "4294967297"],
        ),
        (
            "server.max_images_per_request",
            vec!["1", "4096"],
            vec!["0", "4097"],
        ),
        (
            "server.request_timeout_ms",
            vec!["1", "3600000"],
            vec!["0", "3600001"],
        ),
        (
            "server.shutdown_timeout_ms",
            vec!["0", "600000"],
            vec!["600001"],
        ),
        ("log.format", vec!["JSON", "pretty"], vec!["xml", ""]),
        (
            "limits.max_image_bytes",
            vec!["1", "4294967296"],
            vec!["0", "4294967297"],
        ),
        ("limits.max_width", vec!["1", "65535"], vec!["0", "65536"]),
        ("limits.max_height", vec!["1", "65535"], vec!["0", "65536"]),
        (
            "limits.max_pixels",
            vec!["1", "1000000000"],
            vec!["0", "1000000001"],
        ),
        (
            "imaging.background",
            vec!["[0, 128, 255]"],
            vec!["[0, 0]", "[0, 0, 256]", "white"],
        ),
        ("imaging.workers", vec!["0", "1024"], vec!["1025"]),
        ("imaging.max_decoded", vec!["0", "65536"], vec!["65537"]),
        (
            "admission.interactive_images",
            vec!["0", "1048576"],
            vec!["1048577"],
        ),
        (
            "admission.bulk_images",
            vec!["0", "1048576"],
            vec!["1048577"],
        ),
        (
            "admission.max_bytes",
            vec!["1024", "4398046511104"],
            vec!["1023", "4398046511105"],
        ),
        (
            "admission.bulk_from_images",
            vec!["1", "1048576"],
            vec!["0", "1048577"],
        ),
        (
            "admission.bulk_patience_ms",
            vec!["0", "3600000"],
            vec!["3600001"],
        ),
        (
            "batching.max_queue_delay_ms",
            vec!["0", "0.5", "1000"],
            vec!["-1", "1001"],
        ),
        (
            "batching.cpu_batch_size",
            vec!["1", "1024"],
            vec!["0", "1025"],
        ),
        (
            "server.header_timeout_ms",
            vec!["1", "3600000"],
            vec!["0", "3600001"],
        ),
        (
            "runtime.library",
            vec!["", "null", "/opt/libonnxruntime.so"],
            vec![],
        ),
        ("runtime.plugins_dir", vec!["/opt/plugins"], vec![""]),
        ("runtime.intra_threads", vec!["0", "1024"], vec!["1025"]),
        (
            "cpu.provider",
            vec!["auto", "default", "openvino"],
            vec!["mlas", ""],
        ),
        ("runtime.shipped_dir", vec!["."], vec![""]),
        ("models.dir", vec!["models"], vec![""]),
        ("models.registry", vec!["", "my.yaml"], vec![]),
        ("models.detector", vec!["scrfd"], vec!["", " "]),
        ("models.embedder", vec!["arcface"], vec!["", " "]),
        (
            "detection.det_size",
            vec!["64", "4096"],
            vec!["32", "4128", "650"],
        ),
        (
            "detection.second_det_size",
            vec!["", "64", "608"],
            vec!["32", "640", "100"],
        ),
        (
            "detection.min_score",
            vec!["0", "1"],
            vec!["-0.1", "1.1", ".nan"],
        ),
        ("detection.nms_iou", vec!["0", "1"], vec!["-0.1", "1.1"]),
        (
            "detection.max_faces",
            vec!["0", "100000"],
            vec!["-1", "100001"],
        ),
        ("detection.min_face_size", vec!["0", "65535"], vec!["65536"]),
        (
            "embedding.format",
            vec!["float", "base64-f32", "base64-f16"],
            vec!["base64"],
        ),
        (
            "quality.preset",
            vec!["enrol", "verify", "search"],
            vec!["enroll"],
        ),
        ("enhancement.format", vec!["png", "webp"], vec!["gif"]),
        (
            "enhancement.jpeg_quality",
            vec!["1", "100"],
            vec!["0", "101"],
        ),
        (
            "enhancement.identity_threshold",
            vec!["-1", "1"],
            vec!["-1.1", "1.1"],
        ),
        ("devices.all_gpu", vec!["1", "NO", "on"], vec!["2", ""]),
        (
            "devices.backend",
            vec!["CUDA", "migraphx", "tensorrt"],
            vec!["vulkan"],
        ),
        ("devices.device_id", vec!["0", "255"], vec!["-1", "256"]),
        (
            "devices.memory_limit_gb",
            vec!["", "0.5", "4096"],
            vec!["0", "4097"],
        ),
        ("devices.batch_size", vec!["1", "1024"], vec!["0", "1025"]),
        ("devices.face_detection_on", vec!["cuda:1", ""], vec!["gpu"]),
        ("devices.face_embedding_on", vec!["cpu"], vec!["cuda:x"]),
        ("devices.image_processing_on", vec!["webgpu"], vec![":1"]),
        ("devices.image_enhancement_on", vec!["rocm:0"], vec!["0"]),
        ("devices.quality_checks_on", vec!["auto"], vec!["cuda:-1"]),
        ("devices.failures_to_trip", vec!["1", "1000"], vec!["0"]),
        ("devices.cool_down_ms", vec!["1"], vec!["0", "300001"]),
        (
            "devices.longest_cool_down_ms",
            vec!["5000", "86400000"],
            vec!["4999", "86400001"],
        ),
        ("devices.run_timeout_ms", vec!["1", "3600000"], vec!["0"]),
        (
            "devices.check_every",
            vec!["0", "1000000000"],
            vec!["1000000001"],
        ),
        (
            "database.max_connections",
            vec!["1", "1000"],
            vec!["0", "1001"],
        ),
        (
            "database.acquire_timeout_ms",
            vec!["1", "600000"],
            vec!["0", "600001"],
        ),
        ("store.tenant", vec!["a", "a-b_c.9"], vec!["", "a/b", "é"]),
        ("urls.enabled", vec!["false", "true"], vec!["maybe"]),
        (
            "urls.schemes",
            vec!["[https]", "[https, http]"],
            vec!["[]", "[ftp]", "https"],
        ),
        (
            "urls.hosts",
            vec!["[]", r#"["*.example.com", example.org, "[::1]"]"#],
            vec![r#"["*"]"#, "[a b]", "example.org"],
        ),
        ("urls.connect_timeout_ms", vec!["1"], vec!["0", "3600001"]),
        ("urls.timeout_ms", vec!["1", "3600000"], vec!["0"]),
        ("urls.max_redirects", vec!["0", "20"], vec!["21"]),
        ("urls.max_bytes", vec!["1", "4294967296"], vec!["0"]),
        ("urls.max_concurrent", vec!["1", "1024"], vec!["0", "1025"]),
        ("urls.user_agent", vec!["a/1 (b)"], vec!["", "é", "a\nb"]),
        (
            "database.url",
            vec!["", "sqlite::memory:", "postgres://a/b", "postgresql://a"],
            vec!["mysql://a/b", "postgres://", "faces.sqlite"],
        ),
    ] {
        for text in good {
            assert!(holds(key, text), "{key}={text} is allowed");
        }
        for text in bad {
            assert!(!holds(key, text), "{key}={text} is not allowed");
        }
    }
}
