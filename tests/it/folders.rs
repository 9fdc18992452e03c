//! Commands in a folder that comes from somebody else: they run none of its code and read none of its settings.

use std::{fs, path::Path, process::Command};

use tempfile::TempDir;

use crate::support::{
    app::{image_file, runtime_dir},
    cli::facescan,
};

/// Returns a folder with a photo and with everything that a command could take for its own. The libraries are no libraries,
/// so that a command that loads one fails.
fn hostile() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    fs::write(folder.path().join("photo.jpg"), image_file("t1.jpg")).unwrap();
    for parent in ["", ".runtime/", "runtime/", "facescan/"] {
        for name in [
            "libonnxruntime.so",
            "onnxruntime/libonnxruntime.so",
            "plugins/openvino/libopenvino_c.so.2500",
            "turbojpeg/libturbojpeg.so.0",
            "libturbojpeg.so.0",
            "models/yunet-2023mar.onnx",
            "shipped/yunet.onnx",
        ] {
            write(&format!("{parent}{name}"), "trap");
        }
    }
    write(
        ".env",
        "FACESCAN__RUNTIME__LIBRARY=./libonnxruntime.so\nFACESCAN_CONFIG=facescan.yaml\n\
         DATABASE_URL=sqlite://trap.sqlite?mode=rwc\nFACESCAN__SERVER__PORT=1\n",
    );
    for name in ["facescan.yaml", "config.yaml", "configs/config.yaml"] {
        write(name, "runtime: {library: ./libonnxruntime.so}\n");
    }
    write("models.yaml", "models: trap\n");
    folder
}

/// Returns a command in `folder` that gets no path of libraries or models from the test, apart from `runtime`.
fn command_in(folder: &Path, runtime: Option<&Path>, args: &[&str]) -> Command {
    let mut command = facescan(args);
    command
        .env_remove("FACESCAN__MODELS__DIR")
        .env_remove("FACESCAN__RUNTIME__LIBRARY")
        .current_dir(folder);
    if let Some(runtime) = runtime {
        command.env("FACESCAN_RUNTIME", runtime);
    }
    command
}

#[test]
fn a_scan_in_a_foreign_folder_loads_the_libraries_of_the_installation() {
    let folder = hostile();
    // By the setting, and by the folder of the checkout that the program was built in.
    let runtime = runtime_dir();
    for runtime in [Some(runtime.as_path()), None] {
        let output = command_in(folder.path(), runtime, &["scan", "photo.jpg"])
            .env("FACESCAN__CPU__PROVIDER", "auto")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{text}");
        assert!(
            !text.contains(&folder.path().display().to_string()),
            "{text}"
        );
    }
}

#[test]
fn paths_of_libraries_and_models_never_start_from_the_working_directory() {
    let folder = hostile();
    let installed = tempfile::tempdir().unwrap();
    for (name, value) in [
        ("FACESCAN__RUNTIME__LIBRARY", "./libonnxruntime.so"),
        (
            "FACESCAN__RUNTIME__LIBRARY",
            "onnxruntime/libonnxruntime.so",
        ),
        ("FACESCAN__RUNTIME__TURBOJPEG", "./libturbojpeg.so.0"),
        ("FACESCAN__MODELS__DIR", "models"),
        ("ORT_DYLIB_PATH", "./libonnxruntime.so"),
    ] {
        let output = command_in(
            folder.path(),
            Some(installed.path()),
            &["scan", "photo.jpg"],
        )
        .env(name, value)
        .output()
        .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}={value}: {text}");
        assert!(
            !text.contains("invalid ELF header") && !text.contains("file too short"),
            "{name}={value} loaded a file of the folder: {text}"
        );
    }
}

#[test]
fn a_relative_runtime_folder_is_refused() {
    let output = command_in(hostile().path(), Some(Path::new(".runtime")), &["config"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("runtime.dir"), "{text}");
}

#[test]
fn only_serve_and_worker_read_the_env_file_of_the_working_directory() {
    let folder = hostile();
    let data = tempfile::tempdir().unwrap();
    for args in [
        &["config"][..],
        &["keys", "list"],
        &["migrate"],
        &["models", "list"],
        &["audit", "verify", "--tenant", "default"],
        &["devices"],
    ] {
        let output = command_in(folder.path(), Some(&runtime_dir()), args)
            .env("FACESCAN__DATA_DIR", data.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {text}");
        assert!(!shown.contains(".env:"), "{args:?}: {shown}");
    }
    assert!(!folder.path().join("trap.sqlite").exists());

    fs::write(folder.path().join(".env"), "FACESCAN__SERVER__PORT=far\n").unwrap();
    for args in [&["serve"][..], &["worker"]] {
        let output = command_in(folder.path(), Some(&runtime_dir()), args)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            text.contains(".env:FACESCAN__SERVER__PORT"),
            "{args:?}: {text}"
        );
    }
}

#[test]
fn a_named_env_file_is_read_by_every_command_and_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.env");
    fs::write(&file, "FACESCAN__SERVER__PORT=4711\n").unwrap();
    let shown = facescan(["config", "--env-file"])
        .arg(&file)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(
        text.contains("# .env:FACESCAN__SERVER__PORT") && text.contains("port: 4711"),
        "{text}"
    );
    let missing = facescan(["config", "--env-file", "/no/such/file"])
        .output()
        .unwrap();
    assert_eq!(missing.status.code(), Some(2));
}
