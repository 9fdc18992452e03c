//! `facescan submit` and `facescan batches` against a server on a socket.

use std::process::Output;

use serde_json::Value;
use tokio::task::spawn_blocking;

use super::{process_all, read};
use crate::support::{
    app::{TestApp, image_file},
    cli::facescan,
    values::{assert_fields, lines},
};

/// Runs the binary with the address of the server.
async fn run(server: &str, args: &[&str]) -> Output {
    let mut all: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
    all.extend(["--server".to_owned(), server.to_owned()]);
    spawn_blocking(move || facescan(all).output().unwrap())
        .await
        .unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_submitted_and_read_from_the_command_line() {
    let app = TestApp::start().await;
    let server = format!("http://{}/", app.serve().await);
    let folder = tempfile::tempdir().unwrap();
    for name in ["t1.jpg", "obama.jpg"] {
        std::fs::write(folder.path().join(name), image_file(name)).unwrap();
    }
    let list = folder.path().join("more.txt");
    let missing = folder.path().join("missing.jpg");
    std::fs::write(&list, format!("{}\n", missing.display())).unwrap();
    let path = folder.path().to_str().unwrap().to_owned();
    let options = r#"--operation detect --options {"max_faces":1} --name folder --resume key"#;
    let mut submit = vec!["submit", path.as_str()];
    submit.extend(options.split(' '));
    let first = run(&server, &submit).await;
    assert!(first.status.success(), "{first:?}");
    let batch = json(&first);
    assert_fields!(batch, {"accepted": 2, "name": "folder", "options": {"max_faces": 1}});
    let id = batch["id"].as_str().unwrap().to_owned();

    // The command finds its batch again and has nothing to send.
    let again = run(&server, &submit).await;
    assert!(again.status.success(), "{again:?}");
    assert_fields!(json(&again), {"id": batch["id"], "accepted": 2});

    process_all(&app).await;
    assert_eq!(read(&app, &id).await["state"], "done");
    let items = run(&server, &["batches", "items", &id]).await;
    let lines = lines(&items.stdout);
    assert_eq!(lines.len(), 2);
    assert!(lines[0]["id"].as_str().unwrap().ends_with("obama.jpg"));
    assert_eq!(lines[0]["result"]["faces"].as_array().unwrap().len(), 1);
    let listed = run(&server, &["batches", "list", "--name", "folder"]).await;
    assert_eq!(json(&listed)["id"], id.as_str());

    let unreadable = run(&server, &["submit", list.to_str().unwrap()]).await;
    assert_eq!(unreadable.status.code(), Some(1), "{unreadable:?}");
    assert!(String::from_utf8_lossy(&unreadable.stderr).contains("missing.jpg"));
    let deleted = run(&server, &["batches", "delete", &id]).await;
    assert!(deleted.status.success(), "{deleted:?}");
    let gone = run(&server, &["batches", "show", &id]).await;
    assert_eq!(gone.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("not_found"));
}
