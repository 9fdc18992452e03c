//! Prepares the real shipped models without running them. `scripts/setup --tests` fetches the files.

use std::{
    fs,
    path::{Path, PathBuf},
};

use facescan_inference::{
    prepare::{PrepareError, prepare, rewrite},
    registry::{ModelSpec, Registry},
};

use crate::support::app::runtime_dir;

/// Returns the folder of the shipped files that `scripts/setup` fetched.
fn shipped() -> PathBuf {
    runtime_dir().join("shipped")
}

fn model(id: &str) -> ModelSpec {
    Registry::embedded().unwrap().get(id).unwrap().clone()
}

#[test]
fn preparing_a_shipped_model_produces_the_sha256_of_the_registry() {
    let folder = tempfile::tempdir().unwrap();
    let models_dir = folder.path().join("models");
    let registry = Registry::embedded().unwrap();
    for model in registry.iter() {
        let first = prepare(model, &shipped(), &models_dir).unwrap();
        assert!(first.written);
        assert_eq!(first.sha256, model.sha256);
        assert_eq!(first.bytes, fs::metadata(&first.path).unwrap().len());
        model.verify_file(&models_dir).unwrap();
        // The second call does nothing and needs no shipped file.
        let second = prepare(model, Path::new("nowhere"), &models_dir).unwrap();
        assert!(!second.written);
    }
    let files = fs::read_dir(&models_dir).unwrap().count();
    assert_eq!(files, registry.iter().count(), "no partial file is left");
}

#[test]
fn a_damaged_prepared_file_is_prepared_again() {
    let folder = tempfile::tempdir().unwrap();
    let yunet = model("yunet-2023mar");
    fs::write(yunet.path(folder.path()), b"half a file").unwrap();
    assert!(yunet.verify_file(folder.path()).is_err());
    assert!(prepare(&yunet, &shipped(), folder.path()).unwrap().written);
    yunet.verify_file(folder.path()).unwrap();
}

#[test]
fn a_damaged_shipped_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let yunet = model("yunet-2023mar");
    let name = &yunet.prepare.as_ref().unwrap().file;
    let mut bytes = fs::read(shipped().join(name)).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(folder.path().join(name), &bytes).unwrap();
    let error = prepare(&yunet, folder.path(), &folder.path().join("models")).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("model `yunet-2023mar`: field `prepare.sha256`: "),
        "{text}"
    );
    // A truncated file is not an ONNX model.
    let recipe = yunet.prepare.as_ref().unwrap().recipe;
    let cut = rewrite(&bytes[..middle], recipe);
    assert!(matches!(cut, Err(PrepareError::Onnx(_))));
}

#[test]
fn a_prepared_file_with_an_unknown_sha256_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut yunet = model("yunet-2023mar");
    yunet.sha256 = "0".repeat(64);
    let error = prepare(&yunet, &shipped(), folder.path()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("model `yunet-2023mar`: field `sha256`: the prepared file has "),
        "{text}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_error_for_a_missing_shipped_file_says_how_to_fetch_it() {
    let folder = tempfile::tempdir().unwrap();
    let error = prepare(&model("sface-2021dec"), folder.path(), folder.path()).unwrap_err();
    assert!(error.to_string().ends_with("`scripts/setup` fetches it"));
}
