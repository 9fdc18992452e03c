//! `facescan enroll`, `search` and `index`.

use std::{path::Path, process::Output};

use serde_json::json;
use tokio::task::spawn_blocking;

use super::{ALLOWED, create, gallery, id, of_kind};
use crate::support::{
    app::{TestApp, image_file},
    cli::facescan,
    database::{Database, on_sqlite},
    values::{assert_fields, lines},
};

/// Runs the binary. `settings` are in its environment.
async fn run(args: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut command = facescan(args);
    command.envs(settings.iter().copied());
    spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap()
}

/// Writes images into folders that are named after people.
pub(super) fn write(folder: &Path, images: &[(&str, &str)]) {
    for (person, image) in images {
        let person = folder.join(person);
        std::fs::create_dir_all(&person).unwrap();
        std::fs::write(person.join(image), image_file(image)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_are_enrolled_and_searched_for() {
    let app = TestApp::with(&[ALLOWED]).await;
    let server = format!("http://{}", app.serve().await);
    let staff = id(&create(&app, gallery("staff")).await);
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        &[
            ("biden", "biden.jpg"),
            ("obama", "obama.jpg"),
            ("obama", "t1.jpg"),
        ],
    );
    let path = folder.path().to_str().unwrap();
    let to = ["--server", server.as_str(), "--collection", staff.as_str()];
    let enroll = [&["enroll", path], &to[..]].concat();
    let enrolled = run(&enroll, &[]).await;
    let entries = lines(&enrolled.stdout);
    let outcomes: Vec<_> = entries
        .iter()
        .map(|line| (&line["external_id"], &line["results"][0]["status"]))
        .collect();
    let (biden, obama, yes) = (json!("biden"), json!("obama"), json!("enrolled"));
    assert_eq!(outcomes[..2], [(&biden, &yes), (&obama, &yes)]);
    let error = entries[2]["error"].as_str().unwrap();
    assert!(error.starts_with("several_faces"), "{error}");
    assert_eq!(enrolled.status.code(), Some(1), "{enrolled:?}");

    let image = folder.path().join("obama/obama2.jpg");
    std::fs::write(&image, image_file("obama2.jpg")).unwrap();
    let image = image.to_str().unwrap();
    let purpose = ["--purpose", "entry control", "--case", "door 7"];
    let options = ["--options", r#"{"limit":1}"#];
    let search = [&["search", image], &to[..], &purpose, &options].concat();
    let found = run(&search, &[]).await;
    assert!(found.status.success(), "{found:?}");
    let [line] = &lines(&found.stdout)[..] else {
        panic!("{found:?}");
    };
    assert_eq!(line["found"]["candidates"][0]["external_id"], "obama");
    assert_eq!(line["path"], image);

    let other = [&["search", image], &to[..], &["--purpose", "curiosity"]].concat();
    let refused = run(&other, &[]).await;
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("purpose_not_allowed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_library_gets_every_face_of_an_image() {
    let app = TestApp::with(&[ALLOWED]).await;
    let server = format!("http://{}", app.serve().await);
    let archive = id(&create(&app, of_kind("library", "archive")).await);
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[("2026", "t1.jpg")]);
    let path = folder.path().to_str().unwrap();
    let enroll = [
        "enroll",
        path,
        "--server",
        &server,
        "--collection",
        &archive,
    ];
    let enrolled = run(&enroll, &[]).await;
    assert!(enrolled.status.success(), "{enrolled:?}");
    let faces = lines(&enrolled.stdout)[0]["faces"].clone();
    assert_eq!(faces.as_array().unwrap().len(), 6);
    let subject = [&enroll[..], &["--subject", "anna"]].concat();
    assert_eq!(run(&subject, &[]).await.status.code(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_is_shown_and_purged() {
    on_sqlite(|database: Database| async move {
        let url = database.url();
        let settings = [("DATABASE_URL", url.as_str()), ALLOWED];
        let app = TestApp::with(&settings).await;
        let staff = create(&app, gallery("staff")).await;
        super::index::add(&app, &staff, 0..3).await;
        let shown = run(&["index", "status"], &settings).await;
        let [status] = &lines(&shown.stdout)[..] else {
            panic!("{shown:?}");
        };
        assert_eq!(status["collection"], id(&staff));
        assert_fields!(status, {"faces": 3, "changes": 3, "index": {"state": "memory"}});

        // Each server builds it for itself.
        let refused = run(&["index", "rebuild"], &settings).await;
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        assert!(String::from_utf8_lossy(&refused.stderr).contains("restart the servers"));
        let purged = run(&["index", "purge"], &settings).await;
        assert!(purged.status.success(), "{purged:?}");
    })
    .await;
}
