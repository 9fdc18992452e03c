//! The four layers of the configuration, and its errors.

mod example;

use std::{fs, path::PathBuf};

use facescan::cli;
use facescan_config::{
    CONFIG_FILE, Config, ConfigError, Dtype, Origin, Platform, Provenance, SettingError, Sources,
};
use facescan_imaging::preprocess::Layout;
use facescan_inference::{accelerator::Accelerator, device_task::DeviceTask};
use secrecy::ExposeSecret;
use tempfile::TempDir;

use crate::support::values::assert_fields;

/// The layers of one test, in a temporary folder.
struct Setup {
    folder: TempDir,
    sources: Sources,
}

impl Setup {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            sources: Sources::default(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn file(mut self, yaml: &str) -> Self {
        let path = self.path("facescan.yaml");
        fs::write(&path, yaml).unwrap();
        self.sources.file = Some(path);
        self
    }

    fn dotenv(mut self, text: &str) -> Self {
        let path = self.path(".env");
        fs::write(&path, text).unwrap();
        self.sources.dotenv = Some(path);
        self
    }

    fn env(mut self, name: &str, value: &str) -> Self {
        let environment = &mut self.sources.environment;
        environment.insert(name.to_owned(), value.to_owned());
        self
    }

    fn load(&self) -> Result<(Config, Provenance), ConfigError> {
        Config::load(&self.sources)
    }

    fn config(&self) -> Config {
        self.load().unwrap().0
    }

    /// Returns the text of the error. Its paths do not contain the test's folder.
    fn error(&self) -> String {
        let error = self.load().unwrap_err().to_string();
        let folder = format!("{}/", self.folder.path().display());
        error.replace(&folder, "")
    }

    fn problems(&self) -> Vec<SettingError> {
        match self.load().unwrap_err() {
            ConfigError::Invalid(problems) => problems,
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_later_layer_wins_and_each_value_has_its_origin() {
    let setup = Setup::new()
        .file("server: {port: 1, max_images_per_request: 1, request_timeout_ms: 1}")
        .dotenv(
            "FACESCAN__SERVER__MAX_IMAGES_PER_REQUEST=2\nFACESCAN__SERVER__REQUEST_TIMEOUT_MS=2\n",
        )
        .env("FACESCAN__SERVER__REQUEST_TIMEOUT_MS", "3");
    let (config, provenance) = setup.load().unwrap();

    assert_eq!(config.server.host, "127.0.0.1");
    assert_eq!(config.server.port, 1);
    assert_eq!(config.server.max_images_per_request, 2);
    assert_eq!(config.server.request_timeout_ms, 3);
    assert_eq!(provenance.get("server.host"), Some(&Origin::Default));
    assert_eq!(
        provenance.get("server.port"),
        Some(&Origin::File(setup.path("facescan.yaml")))
    );
    let origin = |key: &str| provenance.get(key).unwrap().to_string();
    assert_eq!(
        origin("server.max_images_per_request"),
        ".env:FACESCAN__SERVER__MAX_IMAGES_PER_REQUEST"
    );
    assert_eq!(
        origin("server.request_timeout_ms"),
        "env:FACESCAN__SERVER__REQUEST_TIMEOUT_MS"
    );
    assert_eq!(
        provenance.get("server"),
        None,
        "only settings have an origin"
    );
    assert_eq!(provenance.len(), config.settings().unwrap().len());
}

#[test]
fn without_sources_every_setting_has_its_default() {
    let (config, provenance) = Config::load(&Sources::default()).unwrap();
    assert_eq!(config.detection.det_size.side(), 640);
    assert_eq!(config.imaging.background, [255, 255, 255]);
    assert!(
        provenance
            .iter()
            .all(|(_, origin)| *origin == Origin::Default)
    );
}

#[test]
fn only_relevant_environment_variables_are_read() {
    let file = Some(PathBuf::from("own.yaml"));
    let sources = Sources::from_process(file.clone(), None).unwrap();
    assert_eq!(sources.file, file);
    assert_eq!(sources.dotenv, None);
    assert!(std::env::var_os("PATH").is_some());
    assert!(!sources.environment.contains_key("PATH"));
}

#[test]
fn every_short_name_sets_its_setting() {
    let config = Setup::new()
        .env("ALL_GPU", "1")
        .env("GPU_BACKEND", "MIGraphX")
        .env("GPU_DEVICE_ID", "3")
        .env("GPU_MEMORY_LIMIT_GB", "1.5")
        .env("GPU_BATCH_SIZE", "16")
        .env("LOG_LEVEL", "WARNING")
        .env("DEBUG", "on")
        .env("DATABASE_URL", "postgres://ann@db/faces")
        .config();
    let devices = &config.devices;
    assert!(devices.all_gpu);
    assert_eq!(devices.backend, Accelerator::Migraphx);
    assert_eq!(devices.device_id, 3);
    assert_eq!(devices.memory_limit_gb, Some(1.5));
    assert_eq!(devices.batch_size, 16);
    assert_eq!(config.log.level, "warn");
    assert!(config.debug);
    assert_eq!(
        config.database_url().expose_secret(),
        "postgres://ann@db/faces"
    );
}

#[test]
fn the_short_name_of_a_toggle_accepts_every_form_of_a_flag() {
    let flags = [
        ("no", false),
        ("False", false),
        ("off", false),
        ("0", false),
        ("Yes", true),
        ("ON", true),
        ("1", true),
    ];
    for operation in DeviceTask::ALL {
        let name = format!("{}_GPU", operation.name().to_uppercase());
        for (text, flag) in flags {
            let devices = Setup::new().env(&name, text).config().devices;
            assert_eq!(
                devices.operations[&operation].gpu,
                Some(flag),
                "{name}={text}"
            );
        }
    }
}

#[test]
fn an_empty_variable_clears_the_value_of_a_lower_layer() {
    let setup = Setup::new()
        .file("devices: {memory_limit_gb: 8}")
        .dotenv("DATABASE_URL=postgres://ann@db/faces")
        .env("GPU_MEMORY_LIMIT_GB", "")
        .env("DATABASE_URL", "null");
    let config = setup.config();
    assert_eq!(config.devices.memory_limit_gb, None);
    assert!(config.database.url.is_none());
}

#[test]
fn all_gpu_applies_to_operations_without_a_toggle() {
    let toggles = |setup: &Setup| {
        let devices = setup.config().devices;
        DeviceTask::ALL.map(|operation| devices.is_on(operation))
    };
    assert_eq!(toggles(&Setup::new()), [false; DeviceTask::ALL.len()]);
    let setup = Setup::new().env("ALL_GPU", "true");
    assert_eq!(toggles(&setup), [true; DeviceTask::ALL.len()]);

    // A toggle of a lower layer still wins over ALL_GPU of a higher one.
    let setup = setup.file("devices: {quality_checks: false}");
    let but_quality = DeviceTask::ALL.map(|operation| operation != DeviceTask::QualityChecks);
    assert_eq!(toggles(&setup), but_quality);
    let setup = Setup::new()
        .env("ALL_GPU", "false")
        .env("FACE_DETECTION_GPU", "true");
    let only_detection = DeviceTask::ALL.map(|operation| operation == DeviceTask::FaceDetection);
    assert_eq!(toggles(&setup), only_detection);
}

#[test]
fn debug_sets_the_log_level_if_nothing_else_does() {
    let (config, provenance) = Setup::new().env("DEBUG", "true").load().unwrap();
    assert_eq!(config.log.level, "debug");
    assert_eq!(provenance.get("log.level"), Some(&Origin::Implied("debug")));

    let set = Setup::new().env("DEBUG", "true").file("log: {level: INFO}");
    assert_eq!(set.config().log.level, "info");
    let set = Setup::new().file("debug: true").env("LOG_LEVEL", "error");
    assert_eq!(set.config().log.level, "error");
    let off = Setup::new().env("DEBUG", "false");
    assert_eq!(off.config().log.level, "info");
}

#[test]
fn a_variable_can_name_the_configuration_file() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, port: u16| {
        let path = folder.path().join(name);
        fs::write(&path, format!("server: {{port: {port}}}")).unwrap();
        path.display().to_string()
    };
    let setup = Setup::new().dotenv(&format!("{CONFIG_FILE}='{}'", write("a.yaml", 1)));
    assert_eq!(setup.config().server.port, 1);
    let setup = setup.env(CONFIG_FILE, &write("b.yaml", 2));
    assert_eq!(setup.config().server.port, 2);
    let setup = setup.file("server: {port: 3}");
    assert_eq!(setup.config().server.port, 3, "the command line wins");
}

#[test]
fn empty_files_set_nothing_and_missing_ones_are_an_error() {
    let mut setup = Setup::new().file("# nothing\nserver:\n  # port: 1\n");
    assert_eq!(setup.config().server.port, 8080);
    setup.sources.dotenv = Some(setup.path("no.env"));
    assert!(setup.error().contains("cannot read no.env"));
    let setup = Setup::new()
        .file("")
        .dotenv("\u{feff}# nothing\n\nOTHER=1\n");
    assert_eq!(setup.config().server.port, 8080);
}

#[test]
fn all_invalid_settings_are_reported_together() {
    let setup = Setup::new()
        .file(
            "server:\n  port: 99999\n  prot: 1\nport: 1\nlimits: 7\nzebra: 1\n\
             imaging:\n  background: [0, 0, 300]\nembedding: {format: {a: 1}}\n\
             store: {tenant: no}\nquality: {preset: {ingest: 1}}\nmodels: {detector: 5}\n",
        )
        .dotenv("FACESCAN__DETECTION__MIN_SCORE=1.5\nLOG_LEVEL=verbose\n")
        .env("DEBUG", "maybe")
        .env("FACESCAN__DETECTION__MIN_SCOR", "1")
        .env("FACESCAN__ZEBRA", "1")
        .env("FACESCAN__LIMITS__MAX_PIXELS", "lots")
        .env("FACESCAN__SERVER__HOST", "")
        .env("FACESCAN__URLS__HOSTS", "[a b]");
    insta::assert_snapshot!(setup.error(), @r#"
    the configuration is not valid:
      server.prot (in facescan.yaml) is not a setting; did you mean server.port?
      port (in facescan.yaml) is not a setting; did you mean server.port?
      limits (in facescan.yaml) is a section; put its settings under it
      zebra (in facescan.yaml) is not a setting; `facescan config --template` lists all settings
      FACESCAN__DETECTION__MIN_SCOR (in the environment) is not a setting; did you mean FACESCAN__DETECTION__MIN_SCORE?
      FACESCAN__ZEBRA (in the environment) is not a setting; `facescan config --template` lists all settings
      debug is "maybe" (from env:DEBUG); allowed: true or false
      server.host is null (from env:FACESCAN__SERVER__HOST); allowed: an IP address or a host name
      server.port is 99999 (from facescan.yaml); allowed: a whole number from 0 to 65535 (0 = any free port)
      limits.max_pixels is "lots" (from env:FACESCAN__LIMITS__MAX_PIXELS); allowed: a whole number from 1 to 1000000000
      imaging.background is [0,0,300] (from facescan.yaml); allowed: three whole numbers from 0 to 255
      models.detector is 5 (from facescan.yaml); allowed: the id of a model in the registry
      embedding.format is {"a":1} (from facescan.yaml); allowed: float, base64-f32 or base64-f16
      quality.preset is {"ingest":1} (from facescan.yaml); allowed: ingest, enroll, verify or search
      urls.hosts is ["a b"] (from env:FACESCAN__URLS__HOSTS); allowed: a list of hosts such as "img.example.com" or "*.example.com" ([] = any)
      log.level is "verbose" (from .env:LOG_LEVEL); allowed: off, error, warn, info, debug, trace, or directives such as `info,facescan=debug`
      detection.min_score is 1.5 (from .env:FACESCAN__DETECTION__MIN_SCORE); allowed: a number from 0 to 1, or null
    "#);
}

#[test]
fn two_names_of_one_setting_must_agree_within_a_layer() {
    let setup = Setup::new()
        .env("GPU_BATCH_SIZE", "8")
        .env("FACESCAN__DEVICES__BATCH_SIZE", "16");
    insta::assert_snapshot!(setup.error(), @r#"
    the configuration is not valid:
      env:FACESCAN__DEVICES__BATCH_SIZE and env:GPU_BATCH_SIZE both set devices.batch_size, to different values; keep one of them
    "#);

    let agree = Setup::new()
        .env("ALL_GPU", "1")
        .env("FACESCAN__DEVICES__ALL_GPU", "true");
    assert!(agree.config().devices.all_gpu);
    let apart = Setup::new()
        .dotenv("GPU_BATCH_SIZE=8")
        .env("FACESCAN__DEVICES__BATCH_SIZE", "16");
    assert_eq!(apart.config().devices.batch_size, 16);
}

#[test]
fn variables_of_other_programs_are_ignored() {
    let setup = Setup::new()
        .env("FACESCAN_PORT", "tcp://10.0.0.1:80")
        .env("PATH", "/bin")
        .dotenv("POSTGRES_PASSWORD=pw");
    assert!(setup.load().is_ok());
    let setup = Setup::new().env("FACESCAN__server__port", "1");
    assert!(matches!(
        &setup.problems()[..],
        [SettingError::Unknown { suggestion: Some(name), .. }] if name == "FACESCAN__SERVER__PORT"
    ));
}

#[test]
fn files_that_cannot_be_read_or_parsed_are_named() {
    let mut setup = Setup::new();
    setup.sources.file = Some(setup.path("gone.yaml"));
    insta::assert_snapshot!(setup.error(), @r#"cannot read gone.yaml: No such file or directory (os error 2); name a file that exists and can be read"#);
    insta::assert_snapshot!(Setup::new().file("- 1\n").error(), @r#"facescan.yaml is not a YAML mapping: expected mapping start at line 1, column 1"#);
    insta::assert_snapshot!(Setup::new().file("server: {port: 1}\nserver: {port: 2}\n").error(), @r#"facescan.yaml is not a YAML mapping: duplicate mapping key: server not allowed here at line 2, column 1"#);
    insta::assert_snapshot!(
        Setup::new().dotenv("DEBUG=true\nDATABASE_URL='hush\nLOG_LEVEL=info\n").error(),
        @r#".env: cannot parse the line after DEBUG; write NAME=value, with quotes around a value with spaces"#
    );
}

#[test]
fn no_secret_is_ever_shown() {
    const SECRET: &str = "hush";
    let url = format!("postgres://ann:{SECRET}@db/faces?password={SECRET}");
    let setup = Setup::new().env("DATABASE_URL", &url);
    let (config, provenance) = setup.load().unwrap();
    assert_eq!(config.database_url().expose_secret(), url);
    let mut shown = vec![
        format!("{config:?}"),
        format!("{provenance:?}"),
        format!("{:?}", setup.sources),
        serde_json::to_string(&config).unwrap(),
        cli::config::render_yaml(&config, &provenance).unwrap(),
        cli::config::render_json(&config, &provenance).unwrap(),
    ];
    assert!(
        shown[4].contains("postgres://ann:***@db/faces"),
        "{}",
        shown[4]
    );

    let wrong = [
        Setup::new().env("DATABASE_URL", &format!("mysql://ann:{SECRET}@db/faces")),
        Setup::new().file(&format!("database: {{url: [{SECRET}]}}")),
        Setup::new().file(&format!("database: {{url: '{SECRET}}}")),
        Setup::new().file(&format!("database:\n  url: a: {SECRET}\n")),
        Setup::new().dotenv(&format!("DATABASE_URL='{SECRET}")),
        Setup::new()
            .env("DATABASE_URL", &url)
            .env("FACESCAN__DATABASE__URL", &format!("{url}2")),
    ];
    for setup in wrong {
        let error = setup.load().unwrap_err();
        shown.extend([error.to_string(), format!("{error:?}")]);
    }
    for text in shown {
        assert!(!text.contains(SECRET), "{text}");
    }
}

#[test]
fn the_database_is_a_file_in_the_data_folder_by_default() {
    let url = |data_dir: &str| {
        let config = Setup::new().env("FACESCAN__DATA_DIR", data_dir).config();
        config.database_url().expose_secret().to_owned()
    };
    assert_eq!(
        url("/var/faces"),
        "sqlite:///var/faces/facescan.sqlite?mode=rwc"
    );
    assert_eq!(url("50%?"), "sqlite://50%25%3F/facescan.sqlite?mode=rwc");
}

#[test]
fn the_printed_configuration_says_where_values_came_from_and_can_be_loaded() {
    let setup = Setup::new()
        .env("FACESCAN__SERVER__PORT", "9000")
        .env("LOG_LEVEL", "info,facescan=debug")
        .file("detection: {min_score: 0.7}");
    let (config, provenance) = setup.load().unwrap();
    let yaml = cli::config::render_yaml(&config, &provenance).unwrap();
    let line = |name: &str| {
        let line = yaml
            .lines()
            .find(|line| line.trim_start().starts_with(name));
        line.unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("port:"), "port: 9000 # env:FACESCAN__SERVER__PORT");
    assert_eq!(
        line("level:"),
        "level: \"info,facescan=debug\" # env:LOG_LEVEL"
    );
    assert_eq!(line("nms_iou:"), "nms_iou: null # default");
    assert!(line("min_score:").starts_with("min_score: 0.7 # "));
    assert!(line("min_score:").ends_with("facescan.yaml"));

    let again = Setup::new().file(&yaml).config();
    assert_eq!(again.settings().unwrap(), config.settings().unwrap());

    let json = cli::config::render_json(&config, &provenance).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_fields!(json["server.port"], {"value": 9000, "origin": "env:FACESCAN__SERVER__PORT"});
    assert_eq!(json["devices.backend"]["value"], "auto");
}

#[test]
fn preprocessing_settings_accept_the_names_of_other_programs() {
    let of = |settings: &[(&str, &str)], file: &str| {
        let setup = settings
            .iter()
            .fold(Setup::new().file(file), |setup, (name, value)| {
                setup.env(name, value)
            });
        setup.load().unwrap().0.preprocess
    };
    let usual = of(&[], "");
    assert_eq!(
        (usual.image_size, usual.requested_platform()),
        ([224, 224], Platform::Cpu)
    );
    let set = of(
        &[
            ("PREPROCESS_IMAGE_SIZE", "[384, 320]"),
            ("PREPROCESS_DATA_FORMAT", "NHWC"),
            ("PREPROCESS_DTYPE", "bf16"),
            ("JAX_USE_GPU", "1"),
        ],
        "",
    );
    assert_eq!(set.image_size, [384, 320]);
    assert_eq!((set.data_format, set.dtype), (Layout::Nhwc, Dtype::Bf16));
    assert_eq!(set.requested_platform(), Platform::Gpu);
    // `platform` wins over `use_gpu` in every layer.
    let file = "preprocess:\n  use_gpu: true\n  jax_platform: cpu\n  cache_compiled: false\n";
    let set = of(&[], file);
    assert_eq!(
        (set.requested_platform(), set.warm_up),
        (Platform::Cpu, false)
    );
    assert_eq!(
        of(&[("JAX_PLATFORM", "tpu")], file).requested_platform(),
        Platform::Tpu
    );
}
