//! The permissions of what the program writes, with the mask that most systems have.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{
    app::{image_file, runtime_dir},
    cli::{Serving, facescan},
};

/// Returns a command that starts with a mask that lets everybody read new files.
fn with_common_mask(args: &[&str]) -> Command {
    let program = facescan(args);
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", "umask 022; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(program.get_args())
        .env_clear()
        .envs(
            program
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
    command
}

/// Returns every file and folder below `folder` that others than the owner can use.
fn open_to_others(folder: &Path) -> Vec<PathBuf> {
    walkdir::WalkDir::new(folder)
        .into_iter()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.metadata().unwrap().permissions().mode() & 0o077 != 0)
        .map(walkdir::DirEntry::into_path)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_and_a_worker_write_only_private_files() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let server = Serving::start(
        with_common_mask(&["serve"])
            .current_dir(folder.path())
            .env("FACESCAN__DATA_DIR", &data)
            .env("FACESCAN__BATCHES__WORKERS", "0"),
    );
    let tls = facescan_outbound::tls::client_config().unwrap();
    let client = facescan_outbound::client(tls).build().unwrap();
    let stored = client
        .post(format!("{}/embed?store=true", server.address))
        .header("content-type", "image/jpeg")
        .body(image_file("t1.jpg"))
        .send()
        .await
        .unwrap();
    assert_eq!(stored.status(), 200);
    let batch = client
        .post(format!("{}/batches?operation=detect", server.address))
        .header("content-type", "application/json")
        .body(
            serde_json::json!({"operation": "detect", "items": [crate::batches::item("a", "t1.jpg")]})
                .to_string(),
        )
        .send()
        .await
        .unwrap();
    assert_eq!(batch.status(), 202);
    let written = walkdir::WalkDir::new(&data).into_iter().count();
    assert!(
        written > 5,
        "the database with its logs, and an image: {written}"
    );
    assert_eq!(open_to_others(&data), Vec::<PathBuf>::new());
}

#[test]
fn commands_write_only_private_files() {
    let folder = tempfile::tempdir().unwrap();
    let photo = runtime_dir().join("pictures/t1.jpg");
    let photo = photo.display().to_string();
    for args in [
        &["embed", &photo, "--out", "out/vectors.npy"][..],
        &["scan", &photo, "--draw", "out/drawn"],
        &["anonymize", &photo, "--out", "out/anonymous"],
        &["migrate"],
    ] {
        fs::create_dir_all(folder.path().join("out")).unwrap();
        let output = with_common_mask(args)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {text}");
    }
    let made_by_test = folder.path().join("out");
    let mut open = open_to_others(folder.path());
    open.retain(|path| path != folder.path() && *path != made_by_test);
    assert_eq!(open, Vec::<PathBuf>::new());
    assert!(made_by_test.join("vectors.npy").exists());
}

#[test]
fn a_database_that_others_could_read_is_private_after_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let migrate = || {
        let output = with_common_mask(&["migrate"])
            .env("FACESCAN__DATA_DIR", folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    migrate();
    let file = folder.path().join("facescan.sqlite");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    migrate();
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
