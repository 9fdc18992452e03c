//! Secrets of the settings: no log line, error or command shows them, at any level.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
};

use crate::support::cli::facescan;

/// Every setting and variable that can have a secret, with a secret in it. None of the servers exists.
const SETTINGS: &[(&str, &str)] = &[
    (
        "FACESCAN__BATCHES__QUEUE",
        "nats://ann:SECRET-%401-queue@127.0.0.1:1",
    ),
    (
        "FACESCAN__BATCHES__PAYLOADS",
        "s3://ann:SECRET-2-payloads@bucket/images",
    ),
    (
        "DATABASE_URL",
        "postgres://ann:SECRET-%403-database@127.0.0.1:1/faces",
    ),
    (
        "FACESCAN__TRACES__ENDPOINT",
        "http://ann:SECRET-4-traces@127.0.0.1:1/v1/traces",
    ),
    ("FACESCAN__TRACES__AUTHORIZATION", "Bearer SECRET-5-header"),
    (
        "FACESCAN__OPENID__ISSUER",
        "http://ann:SECRET-6-issuer@127.0.0.1:1/realm",
    ),
    ("FACESCAN__OPENID__AUDIENCE", "facescan"),
    ("FACESCAN__QDRANT__API_KEY", "SECRET-7-qdrant"),
    (
        "FACESCAN__QDRANT__URL",
        "http://ann:SECRET-8-qdrant@127.0.0.1:1",
    ),
    ("FACESCAN__BATCHES__QUEUE_TOKEN", "SECRET-12-token"),
    (
        "FACESCAN__AUDIT__SECRET",
        "SECRET-13-audit-0123456789-0123456789",
    ),
    (
        "FACESCAN__AUDIT__HEADS",
        "http://ann:SECRET-14-heads@127.0.0.1:1/heads?key=SECRET-15-heads",
    ),
    ("AWS_ACCESS_KEY_ID", "SECRET-9-id"),
    ("AWS_SECRET_ACCESS_KEY", "SECRET-10-key"),
    ("PGPASSWORD", "SECRET-11-password"),
];

fn with_secrets(args: &[&str], level: &str) -> Command {
    let mut command = facescan(args);
    command
        .envs(SETTINGS.iter().copied())
        .env("FACESCAN__DATABASE__ACQUIRE_TIMEOUT_MS", "500")
        .env("LOG_LEVEL", level);
    command
}

fn assert_no_secret(text: &str, place: &str) {
    let line = text
        .lines()
        .find(|line| line.contains("SECRET-") || line.contains("ECRET-%40"));
    assert_eq!(line, None, "{place}");
}

#[test]
fn no_command_shows_a_secret() {
    for args in [
        &["config"][..],
        &["config", "--json"],
        &["migrate"],
        &["keys", "list"],
    ] {
        let output = with_secrets(args, "trace").output().unwrap();
        for text in [&output.stdout, &output.stderr] {
            assert_no_secret(&String::from_utf8_lossy(text), &format!("{args:?}"));
        }
        assert!(!output.stdout.is_empty() || !output.stderr.is_empty());
    }
}

#[test]
fn a_value_that_is_refused_is_shown_without_its_secret() {
    for (name, value) in [
        ("FACESCAN__BATCHES__PAYLOADS", "ftp://ann:SECRET-2@bucket/a"),
        ("FACESCAN__BATCHES__QUEUE", "http://ann:SECRET-1@host"),
        ("FACESCAN__TRACES__ENDPOINT", "ftp://ann:SECRET-4@host"),
        ("FACESCAN__OPENID__ISSUER", "ftp://ann:SECRET-6@host"),
        ("DATABASE_URL", "mysql://ann:SECRET-3@host"),
    ] {
        let output = facescan(["config"]).env(name, value).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert_no_secret(&text, name);
    }
}

#[test]
fn a_server_logs_no_secret_at_any_level() {
    for level in [
        "debug",
        "trace",
        "trace,async_nats=trace,sqlx=trace,hyper=trace,reqwest=trace,object_store=trace",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut server = with_secrets(&["serve"], level)
            .env("FACESCAN__DATA_DIR", folder.path())
            .env("FACESCAN__SERVER__PORT", "0")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The server tries to reach all of them at its start, and then says where it listens.
        let mut errors = BufReader::new(server.stderr.take().unwrap());
        let reading = std::thread::spawn(move || {
            let mut text = String::new();
            errors.read_to_string(&mut text).unwrap();
            text
        });
        let mut line = String::new();
        let mut output = BufReader::new(server.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        let pid = server.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        server.wait().unwrap();
        let text = reading.join().unwrap();
        // Only the libraries log this much, and only if they are named.
        assert_eq!(text.contains("DEBUG"), level.contains('='), "{text}");
        assert!(text.contains("the database is unavailable"), "{text}");
        assert_no_secret(&text, level);
        assert_no_secret(&line, level);
    }
}
