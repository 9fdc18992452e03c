use serde_json::json;

use super::*;
use crate::tensor::{Port, Signature};
use facescan_imaging::{
    preprocess::{Layout, Mode, Profile},
    tensor::ChannelOrder,
};

/// Returns an entry of the built-in registry.
fn spec(id: &str) -> ModelSpec {
    Registry::embedded().unwrap().get(id).unwrap().clone()
}

fn entry(id: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut value = serde_json::to_value(spec(id)).unwrap();
    change(&mut value);
    value
}

/// Sets a field, by its path.
fn set(model: &mut Value, field: &str, value: Value) {
    let mut place = model;
    for key in field.split('.') {
        place = &mut place[key];
    }
    *place = value;
}

fn fault(id: &str, change: impl FnOnce(&mut Value)) -> String {
    check::read(entry(id, change), 0).unwrap_err().to_string()
}

fn port(name: &str, dims: &[Option<usize>]) -> Port {
    Port {
        name: name.into(),
        dims: dims.to_vec(),
        is_f32: true,
    }
}

const ANY: Option<usize> = None;

fn defaults() -> ResizeDefaults {
    ResizeDefaults {
        profile: Profile::Torchvision,
        mode: Mode::Stretch,
        pad: [0; 3],
    }
}

/// Returns an encoder's entry.
fn encoder(change: impl FnOnce(&mut Value)) -> Value {
    entry("sface-2021dec", |model| {
        model["role"] = "encoder".into();
        model["family"] = "image".into();
        let fields = model.as_object_mut().unwrap();
        fields.retain(|key, _| key != "prepare" && key != "thresholds");
        change(model);
    })
}

#[test]
fn the_embedded_registry_is_valid_and_survives_writing() {
    let registry = Registry::embedded().unwrap();
    let ids: Vec<&str> = registry.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(ids, ["yunet-2023mar", "sface-2021dec", "centerface"]);
    for model in registry.iter() {
        let written = serde_json::to_value(model).unwrap();
        assert_eq!(&check::read(written, 0).unwrap(), model);
    }
}

#[test]
fn the_commented_examples_are_valid() {
    let (_, examples) = EMBEDDED
        .split_once("# Examples of models that are not shipped")
        .unwrap();
    let mut text = String::from("models:\n");
    for line in examples.lines().skip(1) {
        let line = line.strip_prefix('#').unwrap();
        text.push_str(&format!(" {line}\n"));
    }
    let models = parse(&text, Path::new("examples")).unwrap();
    let ids: Vec<&str> = models.iter().map(|model| model.id.as_str()).collect();
    assert_eq!(ids[..3], ["scrfd-10g", "arcface-r50", "clip-vit-b32"]);
    let one = "1".parse().unwrap();
    assert_eq!(models[0].batch, Batch::Fixed(one));
    assert_eq!(models[1].dim, Some(512));
}

#[test]
fn a_file_replaces_by_id_and_adds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.yaml");
    let mine = entry("sface-2021dec", |model| model["license"] = "mine".into());
    let new = entry("sface-2021dec", |model| model["id"] = "new".into());
    let text = json!({ "models": [mine, new] }).to_string();
    fs::write(&path, text).unwrap();
    let registry = Registry::load(Some(&path), &defaults()).unwrap();
    assert_eq!(registry.iter().count(), 4);
    assert_eq!(registry.get("sface-2021dec").unwrap().license, "mine");
    assert_eq!(registry.get("new").unwrap().dim, Some(128));
    assert_eq!(
        registry.get("old").unwrap_err().to_string(),
        "model `old` is not in the registry; there are yunet-2023mar, sface-2021dec, centerface, new"
    );
}

#[test]
fn a_broken_file_says_where() {
    let error = |text: &str| parse(text, Path::new("own.yaml")).unwrap_err().to_string();
    assert!(error("models: [").starts_with("own.yaml: "));
    assert_eq!(
        error("model: []"),
        "own.yaml: expected a list under the key `models`"
    );
    assert_eq!(
        error("{models: [], more: 1}"),
        "own.yaml: unknown key `more`; the only one is `models`"
    );
    assert_eq!(
        error("models: [{}, {}]"),
        "model `#1`: field `.`: missing field `id`"
    );
    let twice = entry("centerface", |_| {});
    assert_eq!(
        error(&json!({ "models": [twice, twice] }).to_string()),
        "model `centerface`: field `id`: is there twice in one file"
    );
}

#[test]
fn a_wrong_value_names_the_model_and_the_field() {
    assert_eq!(
        fault("yunet-2023mar", |m| m["input"]["color"] = "rgb".into()),
        "model `yunet-2023mar`: field `input.color`: unknown field `color`, expected one of `name`, `width`, \
         `height`, `size_multiple`, `channel_order`, `mean`, `scale`, `layout`, `profile`, `mode`, `pad`"
    );
    assert!(
        fault("yunet-2023mar", |m| m["input"]["mean"][1] = "x".into())
            .starts_with("model `yunet-2023mar`: field `input.mean[1]`: invalid type")
    );
    assert_eq!(
        fault("yunet-2023mar", |m| m["batch"] = 0.into()),
        "model `yunet-2023mar`: field `batch`: expected `dynamic` or a number from 1"
    );
    for (id, field, value) in [
        ("yunet-2023mar", "id", json!("Yu Net")),
        ("yunet-2023mar", "role", json!("embedder")),
        ("yunet-2023mar", "sha256", json!("AB")),
        ("yunet-2023mar", "dim", json!(5)),
        ("yunet-2023mar", "input.width", json!(650)),
        ("yunet-2023mar", "input.height", json!(0)),
        ("yunet-2023mar", "input.size_multiple", json!(16)),
        ("yunet-2023mar", "input.scale", json!([1, 1, 0])),
        ("yunet-2023mar", "thresholds.score", json!(1.5)),
        ("yunet-2023mar", "prepare.sha256", json!("")),
        ("yunet-2023mar", "prepare.recipe", json!("sface")),
        ("sface-2021dec", "dim", Value::Null),
        ("sface-2021dec", "input.height", json!(128)),
        ("sface-2021dec", "thresholds.cosine_far_1e3", json!(2)),
    ] {
        let text = fault(id, |model| set(model, field, value));
        assert!(text.contains(&format!(": field `{field}`: ")), "{text}");
    }
}

/// Stored embeddings carry the vector space. A change of these values makes all of them incomparable.
#[test]
fn the_vector_space_is_stable_and_follows_what_moves_embeddings() {
    let sface = spec("sface-2021dec");
    assert_eq!(sface.vector_space(), "2e56e878463e72ef30050736a74e467b");
    let changes: [fn(&mut ModelSpec); 5] = [
        |m| m.sha256 = "0".repeat(64),
        |m| m.input.channel_order = ChannelOrder::Bgr,
        |m| m.input.mean[0] = 1.0,
        |m| m.input.scale[2] = 2.0,
        |m| m.input.width = 128,
    ];
    for change in changes {
        let mut other = sface.clone();
        change(&mut other);
        assert_ne!(other.vector_space(), sface.vector_space());
    }
    let mut renamed = sface.clone();
    renamed.id = "other".into();
    renamed.file = "elsewhere.onnx".into();
    assert_eq!(renamed.vector_space(), sface.vector_space());
}

#[test]
fn an_encoders_vector_space_follows_the_resize_and_the_output() {
    let spec = check::read(encoder(|_| ()), 0).unwrap();
    assert_eq!(spec.vector_space(), "421d19a2250d630569482253eb2bb29a");
    let changes: [fn(&mut ModelSpec); 5] = [
        |m| m.input.profile = Some(Profile::Pil),
        |m| m.input.mode = Some(Mode::Letterbox),
        |m| m.input.pad = Some([0, 0, 1]),
        |m| m.output = Some("image_embeds".into()),
        |m| m.pooling = Some(Pooling::Mean),
    ];
    for change in changes {
        let mut other = spec.clone();
        change(&mut other);
        assert_ne!(other.vector_space(), spec.vector_space());
    }
    // The layout depends on how the file was exported, and changes no embedding.
    let mut exported = spec.clone();
    exported.input.layout = Layout::Nhwc;
    assert_eq!(exported.vector_space(), spec.vector_space());
}

#[test]
fn an_encoder_is_resized_as_the_settings_say_where_its_entry_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("own.yaml");
    let own = encoder(|model| {
        model["id"] = "own".into();
        model["input"]["mode"] = "stretch".into();
    });
    let entries = json!({ "models": [own, encoder(|model| model["id"] = "usual".into())] });
    fs::write(&path, entries.to_string()).unwrap();
    let settings = ResizeDefaults {
        mode: Mode::CenterCrop,
        profile: Profile::Jax,
        ..defaults()
    };
    let registry = Registry::load(Some(&path), &settings).unwrap();
    let resize = |id| {
        let preprocess = registry.get(id).unwrap().input.preprocess();
        (preprocess.profile, preprocess.mode)
    };
    assert_eq!(resize("own"), (Profile::Jax, Mode::Stretch));
    assert_eq!(resize("usual"), (Profile::Jax, Mode::CenterCrop));
    assert_eq!(registry.get("sface-2021dec").unwrap().input.profile, None);
    // The same rules apply to values from the settings.
    let settings = ResizeDefaults {
        mode: Mode::ShortSide,
        ..defaults()
    };
    let refused = Registry::load(Some(&path), &settings)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("model `usual`: field `input.mode`"),
        "{refused}"
    );
}

#[test]
fn what_an_encoder_may_not_say_is_refused_by_field() {
    for (field, value) in [
        ("input.mode", json!("short_side")),
        ("input.size_multiple", json!(32)),
        ("input.width", json!(9000)),
        ("dim", Value::Null),
        ("role", json!("embedder")),
    ] {
        let entry = encoder(|model| set(model, field, value));
        let text = check::read(entry, 0).unwrap_err().to_string();
        assert!(text.contains(&format!(": field `{field}`: ")), "{text}");
    }
    for field in ["output", "pooling"] {
        let text = fault("sface-2021dec", |model| model[field] = "first".into());
        assert!(text.contains("is for encoders"), "{text}");
    }
}

#[test]
fn a_file_is_missing_then_different_then_ready() {
    let folder = tempfile::tempdir().unwrap();
    let mut model = spec("centerface");
    // The version of the format, as a message.
    let right = [0x08, 0x06];
    model.sha256 = digest::sha256(&right);
    assert_eq!(model.file_state(folder.path()).unwrap(), FileState::Missing);
    let text = model.verify_file(folder.path()).unwrap_err().to_string();
    assert!(text.starts_with("model `centerface`: field `file`: there is no "));
    assert!(text.ends_with("run `facescan models prepare`"));
    fs::write(model.path(folder.path()), b"wrong").unwrap();
    let text = model.verify_file(folder.path()).unwrap_err().to_string();
    assert!(text.starts_with("model `centerface`: field `sha256`: "));
    assert!(text.contains(&digest::sha256(b"wrong")) && text.contains(&model.sha256));
    fs::write(model.path(folder.path()), right).unwrap();
    model.verify_file(folder.path()).unwrap();
    assert_eq!(
        digest::sha256(b"abc"),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

#[test]
fn a_file_with_weights_elsewhere_is_refused_although_its_sha256_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let refusal = |bytes: &[u8]| {
        let mut model = spec("centerface");
        model.sha256 = digest::sha256(bytes);
        fs::write(model.path(folder.path()), bytes).unwrap();
        model.verify_file(folder.path()).unwrap_err().to_string()
    };
    let text = refusal(&external_data::tests::file_without_weights());
    assert!(
        text.contains("`w.bin`") && text.ends_with("save the model as one file"),
        "{text}"
    );
    // Text that is no message of ONNX.
    let text = refusal(b"\xff\xff");
    assert!(text.contains("is not an ONNX model"), "{text}");
}

fn yunet() -> Signature {
    let mut outputs = Vec::new();
    for (kind, values) in [("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)] {
        for stride in [8, 16, 32] {
            outputs.push(port(&format!("{kind}_{stride}"), &[ANY, ANY, Some(values)]));
        }
    }
    Signature {
        inputs: vec![port("input", &[ANY, Some(3), ANY, ANY])],
        outputs,
    }
}

fn embedder(batch: Option<usize>, dim: usize) -> Signature {
    Signature {
        inputs: vec![port("data", &[batch, Some(3), Some(112), Some(112)])],
        outputs: vec![port("fc1", &[Some(1), Some(dim)])],
    }
}

#[test]
fn a_graph_that_fits_its_entry_passes() {
    spec("yunet-2023mar").check_signature(&yunet()).unwrap();
    let sface = spec("sface-2021dec");
    sface.check_signature(&embedder(ANY, 128)).unwrap();
    let maps = [("537", 1), ("538", 2), ("539", 2), ("540", 10)];
    let centerface = Signature {
        inputs: vec![port("input.1", &[ANY, Some(3), ANY, ANY])],
        outputs: maps
            .map(|(name, c)| port(name, &[ANY, Some(c), ANY, ANY]))
            .into(),
    };
    spec("centerface").check_signature(&centerface).unwrap();
}

#[test]
fn scrfd_has_six_or_nine_outputs_and_may_fix_its_batch() {
    let mut scrfd = spec("yunet-2023mar");
    scrfd.family = Family::Scrfd;
    scrfd.input.name = None;
    scrfd.batch = Batch::Fixed("1".parse().unwrap());
    let all = [1, 1, 1, 4, 4, 4, 10, 10, 10].map(|values| port("x", &[ANY, Some(values)]));
    let mut signature = Signature {
        inputs: vec![port("input.1", &[Some(1), Some(3), ANY, ANY])],
        outputs: all.to_vec(),
    };
    scrfd.check_signature(&signature).unwrap();
    signature.outputs.truncate(6);
    scrfd.check_signature(&signature).unwrap();
    signature.outputs.truncate(5);
    let text = scrfd.check_signature(&signature).unwrap_err().to_string();
    assert!(
        text.contains("field `family`: the registry expects 3 outputs each of last dimension 1, 4")
    );
    signature.outputs = all.to_vec();
    scrfd.batch = Batch::Dynamic;
    assert_eq!(
        scrfd.check_signature(&signature).unwrap_err().to_string(),
        "model `yunet-2023mar`: field `batch`: the registry expects `dynamic`, the file has a fixed batch of 1"
    );
}

#[test]
fn a_graph_that_does_not_fit_names_the_field() {
    let (detector, sface) = (&spec("yunet-2023mar"), &spec("sface-2021dec"));
    let mut other_name = yunet();
    other_name.inputs[0].name = "image".into();
    let mut gray = yunet();
    gray.inputs[0].dims[1] = Some(1);
    let mut fixed_size = yunet();
    fixed_size.inputs[0].dims[2] = Some(640);
    let mut short = yunet();
    short.outputs.remove(4);
    let mut wide = yunet();
    wide.outputs[0].dims[2] = Some(2);
    let mut half = yunet();
    half.outputs[3].is_f32 = false;
    let mut large = embedder(ANY, 128);
    large.inputs[0].dims[3] = Some(224);
    for (model, signature, field) in [
        (detector, other_name, "input.name"),
        (detector, gray, "family"),
        (detector, fixed_size, "input.size_multiple"),
        (detector, short, "family"),
        (detector, wide, "family"),
        (detector, half, "family"),
        (detector, embedder(ANY, 128), "input.name"),
        (sface, embedder(Some(4), 128), "batch"),
        (sface, embedder(ANY, 512), "dim"),
        (sface, large, "input.width"),
    ] {
        let text = model.check_signature(&signature).unwrap_err().to_string();
        let start = format!(
            "model `{}`: field `{field}`: the registry expects ",
            model.id
        );
        assert!(text.starts_with(&start), "{text}");
    }
}
