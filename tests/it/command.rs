//! The binary: its output, its exit codes, and how a signal stops the server.

use std::{
    io::{BufRead, Read, Write},
    net::TcpStream,
    process::Stdio,
};

use insta::assert_snapshot;
use serde_json::Value;

use crate::support::{
    app::image_file,
    cli::{Serving, facescan},
};

fn stderr(output: &std::process::Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_help_texts_match_their_snapshots() {
    let help = |args: &[&str]| String::from_utf8(facescan(args).output().unwrap().stdout).unwrap();
    assert_snapshot!("help", help(&["--help"]));
    assert_snapshot!("help_scan", help(&["scan", "--help"]));
}

#[test]
fn an_invalid_setting_stops_the_start_with_key_value_and_allowed_range() {
    let output = facescan(["serve"])
        .env("FACESCAN__DETECTION__MIN_SCORE", "1.5")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_snapshot!(stderr(&output));
}

#[test]
fn a_missing_runtime_or_model_stops_the_start_and_says_what_to_do() {
    let output = facescan(["serve"])
        .env("FACESCAN__RUNTIME__LIBRARY", "/no/such/libonnxruntime.so")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(
        text.contains("/no/such/libonnxruntime.so") && text.contains("scripts/setup"),
        "{text}"
    );

    let image = crate::support::app::runtime_dir().join("pictures/t1.jpg");
    let output = facescan(["scan", &image.display().to_string()])
        .env("FACESCAN__MODELS__DIR", "/no/such/models")
        .env("FACESCAN__RUNTIME__SHIPPED_DIR", "/no/such/files")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(
        text.contains("yunet-2023mar") && text.contains("facescan models prepare"),
        "{text}"
    );
}

#[test]
fn scanning_a_folder_draws_faces_and_a_failure_sets_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.jpg"), image_file("t1.jpg")).unwrap();
    std::fs::write(folder.path().join("b.jpg"), "not an image").unwrap();
    std::fs::write(folder.path().join("notes.txt"), "not read").unwrap();
    let drawings = folder.path().join("drawn");
    let output = facescan(["scan", "--draw"])
        .arg(&drawings)
        .arg(folder.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let lines: Vec<Value> = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["faces"].as_array().unwrap().len(), 6);
    assert_eq!(lines[1]["error"]["code"], "unsupported_media_type");
    let drawn = image::open(drawings.join("a.jpg.faces.jpg"))
        .unwrap()
        .to_rgb8();
    assert_eq!(drawn.dimensions(), (1280, 886));

    let table = facescan(["scan", "--format", "table"])
        .arg(folder.path().join("a.jpg"))
        .output()
        .unwrap();
    assert_eq!(table.status.code(), Some(0));
    let text = String::from_utf8(table.stdout).unwrap();
    assert_eq!(text.lines().count(), 8, "{text}");
    assert!(text.ends_with("1 images, 6 faces, 0 failed\n"), "{text}");
}

/// Returns the exit code and the texts of a command.
fn run(args: &[&str], settings: &[(&str, &str)]) -> (Option<i32>, String, String) {
    let output = facescan(args)
        .envs(settings.iter().copied())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), out, stderr(&output))
}

#[test]
fn the_version_names_the_runtime_and_the_models() {
    let (code, out, _) = run(&["--version"], &[]);
    assert_eq!(code, Some(0));
    let version = env!("CARGO_PKG_VERSION");
    assert!(out.starts_with(&format!("facescan {version}")), "{out}");
    assert!(out.contains("ONNX Runtime 1."), "{out}");
    assert!(out.contains("yunet-2023mar, sface-2021dec in "), "{out}");
    let (code, out, _) = run(
        &["--version"],
        &[("FACESCAN__RUNTIME__LIBRARY", "/no/such.so")],
    );
    assert_eq!(code, Some(0));
    assert!(
        out.contains("cannot load the onnx runtime library: /no/such.so"),
        "{out}"
    );
}

#[test]
fn the_template_has_every_setting_and_completions_every_command() {
    let (_, template, _) = run(
        &["config", "--template"],
        &[("FACESCAN__SERVER__PORT", "none")],
    );
    assert_eq!(template, include_str!("../../configs/config.yaml"));
    let (_, bash, _) = run(&["completions", "bash"], &[]);
    assert!(
        bash.contains("facescan__subcmd__anonymize") || bash.contains("facescan__anonymize"),
        "{bash}"
    );
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man");
    let (code, _, _) = run(&["man", &pages.display().to_string()], &[]);
    assert_eq!(code, Some(0));
    let page = std::fs::read_to_string(pages.join("facescan-scan.1")).unwrap();
    assert!(page.contains("Find the faces in images"), "{page}");
}

#[test]
fn a_folder_without_images_is_an_error_with_what_was_left_out() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(".hidden.jpg"), "").unwrap();
    let path = folder.path().display().to_string();
    for command in ["scan", "embed", "cluster", "submit"] {
        let (code, _, text) = run(&[command, &path], &[]);
        assert_eq!(code, Some(2), "{command}");
        assert!(
            text.contains("there is no image in this folder"),
            "{command}: {text}"
        );
        assert!(text.contains("left out: 1 hidden"), "{command}: {text}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named_at_once() {
    for (args, settings) in [
        (&["batches", "list", "--server", "127.0.0.1:1"][..], &[][..]),
        (
            &["batches", "list"],
            &[("FACESCAN_SERVER", "http://127.0.0.1:1")],
        ),
        (&["batches", "list"], &[("FACESCAN__SERVER__PORT", "1")]),
    ] {
        let (code, _, text) = run(args, settings);
        assert_eq!(code, Some(2));
        let expected = "cannot reach a server at http://127.0.0.1:1/ (Connection refused";
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn people_are_shown_on_a_page_that_needs_no_other_file() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["obama.jpg", "obama2.jpg", "biden.jpg"] {
        std::fs::write(folder.path().join(name), image_file(name)).unwrap();
    }
    let page = folder.path().join("people.html");
    let path = folder.path().display().to_string();
    let html = page.display().to_string();
    let (code, out, text) = run(&["cluster", &path, "--html", &html], &[]);
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(out.lines().count(), 2, "one person, and one face of nobody");
    assert!(
        text.contains("3 faces in 3 images: 1 people, 1 faces of nobody; 0 images failed"),
        "{text}"
    );
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("<h2>Person 1, 2 faces</h2>"), "{html}");
    assert_eq!(html.matches("src=\"data:image/jpeg;base64,/9j/").count(), 3);
    assert!(html.contains("alt=\"biden.jpg\""), "{html}");
    assert!(!html.contains("://"), "{html}");
}

#[test]
fn the_demo_finds_the_face_of_its_picture() {
    let runtime = crate::support::app::runtime_dir().display().to_string();
    let (code, out, text) = run(&["demo"], &[("FACESCAN_RUNTIME", &runtime)]);
    assert_eq!(code, Some(0), "{text}");
    assert!(out.contains("1 images, 1 faces, 0 failed"), "{out}");
}

/// As after the installation of a package: the models are there as they were published.
#[test]
fn models_that_nobody_prepared_are_prepared_at_the_first_run() {
    let folder = tempfile::tempdir().unwrap();
    let models = folder.path().join("models").display().to_string();
    let shipped = crate::support::app::runtime_dir()
        .join("shipped")
        .display()
        .to_string();
    let image = folder.path().join("a.jpg");
    std::fs::write(&image, image_file("t1.jpg")).unwrap();
    let settings = [
        ("FACESCAN__MODELS__DIR", models.as_str()),
        ("FACESCAN__RUNTIME__SHIPPED_DIR", &shipped),
    ];
    let (code, _, text) = run(&["scan", &image.display().to_string()], &settings);
    assert_eq!(code, Some(0), "{text}");
    assert!(folder.path().join("models/yunet-2023mar.onnx").is_file());
}

#[test]
fn options_that_are_refused_leave_no_database() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("a.jpg");
    std::fs::write(&image, image_file("t1.jpg")).unwrap();
    let database = folder.path().join("facescan.sqlite");
    for refused in [&["--aligned"][..], &["--min-score", "2"]] {
        let output = facescan(["scan", "--store"])
            .args(refused)
            .arg(&image)
            .env(
                "FACESCAN__DATABASE__URL",
                format!("sqlite:{}", database.display()),
            )
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(!database.exists(), "{refused:?}");
    }
}

#[test]
fn an_endless_file_is_refused_at_the_size_limit() {
    let output = facescan(["scan", "/dev/zero"])
        .env("FACESCAN__LIMITS__MAX_IMAGE_BYTES", "100000")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["error"]["code"], "image_too_large");
}

#[test]
fn a_closed_output_pipe_is_not_a_failure() {
    let mut printing = facescan(["openapi"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(printing.stdout.take());
    assert_eq!(printing.wait().unwrap().code(), Some(0));
}

#[test]
fn the_openapi_document_is_printed_even_if_settings_are_invalid() {
    let output = facescan(["openapi"])
        .env("FACESCAN__SERVER__PORT", "none")
        .output()
        .unwrap();
    assert!(output.status.success());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(document["paths"]["/embed"]["post"].is_object());
}

/// Sends a request without the last byte of its body, so that the request stays in flight.
fn begin(address: &str, image: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /detect?store=false HTTP/1.1\r\nhost: {address}\r\ncontent-type: image/jpeg\r\ncontent-length: {}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n",
        image.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    // The interim response proves that the handler has the request and waits for its body.
    let mut line = [0; 25];
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(&image[..image.len() - 1]).unwrap();
    stream
}

#[cfg(unix)]
#[test]
fn a_signal_lets_requests_finish_and_stops_new_connections() {
    let data = tempfile::tempdir().unwrap();
    let mut server = Serving::start(facescan(["serve"]).env("FACESCAN__DATA_DIR", data.path()));
    let address = server.address.trim_start_matches("http://").to_owned();
    let health = facescan(["healthcheck", "--url", &format!("http://{address}")])
        .output()
        .unwrap();
    assert!(health.status.success(), "{}", stderr(&health));

    let image = image_file("t1.jpg");
    let mut in_flight = begin(&address, &image);
    let signaled = std::process::Command::new("kill")
        .args(["-TERM", &server.process.id().to_string()])
        .status()
        .unwrap();
    assert!(signaled.success());
    // The listener is closed as soon as the signal is seen.
    while TcpStream::connect(&address).is_ok() {
        std::thread::yield_now();
    }
    in_flight.write_all(&image[image.len() - 1..]).unwrap();
    let mut answer = String::new();
    in_flight.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    assert_eq!(server.process.wait().unwrap().code(), Some(0));

    let health = facescan(["healthcheck", "--url", &format!("http://{address}")])
        .output()
        .unwrap();
    assert_eq!(health.status.code(), Some(1));
}
