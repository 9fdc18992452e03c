//! Registries of models, and the graphs that they are compared with.

use std::{collections::HashSet, io::Write, sync::LazyLock};

use facescan_config::{Config, Sources};
use facescan_inference::{
    registry::{ModelSpec, Registry, ResizeDefaults},
    tensor::{Port, Signature},
};
use tempfile::NamedTempFile;

/// The names that a graph may have for its inputs and outputs.
const NAMES: [&str; 8] = [
    "input", "data", "cls_8", "obj_8", "bbox_8", "kps_8", "cls_16", "output",
];

static DEFAULTS: LazyLock<ResizeDefaults> = LazyLock::new(|| {
    let (config, _) = Config::load(&Sources::default()).expect("the defaults are valid");
    config.preprocess.resize_defaults()
});

/// The entries of a registry that loads have different ids and finite numbers, and are the same after they were written and
/// read. An entry is compared with any graph without a panic.
pub fn registry(text: &[u8]) {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(text).expect("it can be written");
    let Ok(registry) = Registry::load(Some(file.path()), &DEFAULTS) else {
        return;
    };
    let graph = graph(text);
    let mut ids = HashSet::new();
    for model in registry.iter() {
        assert!(ids.insert(&model.id), "{} is there twice", model.id);
        check(model);
        if let Err(error) = model.check_signature(&graph) {
            assert!(error.to_string().contains(&model.id), "{error}");
        }
    }
}

fn check(model: &ModelSpec) {
    assert_eq!(model.vector_space().len(), 32);
    assert!(
        !model.id.is_empty() && !model.id.contains('/'),
        "{}",
        model.id
    );
    let [channels, height, width] = model.input.row_shape();
    assert!(channels > 0 && height > 0 && width > 0, "{}", model.id);
    let resize = model.input.preprocess();
    assert!(
        resize
            .mean
            .iter()
            .chain(&resize.std)
            .all(|value| value.is_finite())
    );
    let written = serde_json::to_string(model).expect("an entry can be written");
    let read: ModelSpec = serde_json::from_str(&written).expect("an entry can be read");
    assert_eq!(read, *model);
}

/// Returns a graph that the last bytes of a text describe.
fn graph(text: &[u8]) -> Signature {
    let mut ports = text.rchunks(6).take(16).map(port);
    Signature {
        inputs: ports.by_ref().take(1).collect(),
        outputs: ports.collect(),
    }
}

fn port(bytes: &[u8]) -> Port {
    let (first, dims) = bytes.split_first().unwrap_or((&0, &[]));
    Port {
        name: NAMES[usize::from(first % 8)].to_owned(),
        dims: dims
            .iter()
            .map(|dim| (dim % 3 > 0).then_some(usize::from(dim / 3)))
            .collect(),
        is_f32: first % 16 < 15,
    }
}
