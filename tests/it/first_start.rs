//! What a new server says and does: its banner, its first key, its options, and a database that cannot be used.

use std::{
    io::{BufRead as _, Read as _, Write as _},
    net::TcpStream,
    process::{Command, Stdio},
};

use crate::support::{
    cli::{Serving, facescan},
    database::{Database, on_postgres},
};

/// Sends a request and returns the response with its head.
fn ask(address: &str, path: &str, key: Option<&str>) -> String {
    let host = address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    let key = key.map_or_else(String::new, |key| format!("x-api-key: {key}\r\n"));
    let head = format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{key}\r\n");
    stream.write_all(head.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// Returns whether a server lets a key list images.
fn is_let_in(server: &Serving, key: &str) -> bool {
    ask(&server.address, "/images", Some(key)).starts_with("HTTP/1.1 200")
}

fn start(data: &tempfile::TempDir, settings: &[(&str, &str)]) -> Serving {
    let mut command = facescan(["serve"]);
    command.env("FACESCAN__DATA_DIR", data.path());
    command.env("FACESCAN__ACCESS__MODE", "required");
    Serving::start(command.envs(settings.iter().copied()))
}

#[test]
fn a_server_that_needs_keys_makes_the_first_one_and_shows_it_once() {
    let data = tempfile::tempdir().unwrap();
    let mut server = start(&data, &[]);
    server.banner();
    let mut line = String::new();
    server.output.read_line(&mut line).unwrap();
    let key = line.trim().rsplit(' ').next().unwrap().to_owned();
    assert!(key.starts_with("fsk_"), "{line}");
    assert!(is_let_in(&server, &key));
    assert!(!is_let_in(&server, &key.replace("fsk_", "fsk_0")));
    server.stop();

    let mut again = start(&data, &[]);
    assert!(is_let_in(&again, &key));
    again.banner();
    again.process.kill().unwrap();
    let mut rest = String::new();
    again.output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "", "nothing after the banner");
}

#[test]
fn the_first_key_of_the_settings_or_of_a_file_is_stored_and_later_ones_are_not() {
    let key = |digit: char| format!("fsk_{}_{}", digit.to_string().repeat(16), "ab".repeat(32));
    let (first, second) = (key('1'), key('2'));
    let data = tempfile::tempdir().unwrap();
    let server = start(&data, &[("FACESCAN_FIRST_KEY", &first)]);
    assert!(is_let_in(&server, &first));
    server.stop();
    let server = start(&data, &[("FACESCAN_FIRST_KEY", &second)]);
    assert!(is_let_in(&server, &first));
    assert!(!is_let_in(&server, &second), "the database has a key");
    server.stop();

    let data = tempfile::tempdir().unwrap();
    let file = data.path().join("first");
    std::fs::write(&file, format!("{second}\n")).unwrap();
    let file = file.display().to_string();
    let server = start(&data, &[("FACESCAN_FIRST_KEY_FILE", &file)]);
    assert!(is_let_in(&server, &second));
}

#[test]
fn a_first_key_that_could_be_guessed_stops_the_start() {
    let data = tempfile::tempdir().unwrap();
    let output = facescan(["serve", "--port", "0"])
        .env("FACESCAN__DATA_DIR", data.path())
        .env("FACESCAN__ACCESS__MODE", "required")
        .env("FACESCAN_FIRST_KEY", "hunter2")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("access.first_key is not a key"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
}

#[test]
fn the_banner_says_what_is_kept_and_for_whom() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().display().to_string();
    let settings = [("FACESCAN__RETENTION__RESULTS_DAYS", "30")];
    let mut command = facescan(["serve", "--data-dir", &folder, "--host", "127.0.0.1"]);
    let mut server = Serving::start(command.envs(settings));
    let banner = server.banner();
    for expected in [
        &format!("database  SQLite, {folder}/facescan.sqlite"),
        "faces and vectors are stored for 30 days",
        "none needed, because only this machine reaches the server",
        &format!("images wait in {folder}/payloads"),
        "yunet-2023mar on cpu in f32",
    ] {
        assert!(banner.contains(expected), "{expected} is not in {banner}");
    }
}

#[test]
fn an_option_wins_over_a_variable_and_a_wrong_one_is_named() {
    let config = |args: &[&str]| {
        let output = facescan(args)
            .env("FACESCAN__SERVER__HOST", "0.0.0.0")
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, text) = config(&["serve", "--port", "70000"]);
    assert_eq!(code, Some(2));
    assert!(
        text.contains("server.port is 70000 (from --port)"),
        "{text}"
    );
    let (code, text) = config(&["serve", "--host", "not a host"]);
    assert_eq!(code, Some(2));
    assert!(text.contains("(from --host)"), "{text}");
}

#[tokio::test]
async fn a_database_that_does_not_exist_stops_the_start() {
    on_postgres(async |database| {
        let Database::Postgres { options } = &database else {
            panic!("a Postgres database");
        };
        let options = options.as_ref().clone().database("no_such_database");
        let url = sqlx::ConnectOptions::to_url_lossy(&options).to_string();
        let mut serve = facescan(["serve", "--port", "0", "--database", &url]);
        let output = serve.output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected =
            "has no database `no_such_database`; create it with `createdb no_such_database`";
        assert!(text.contains(expected), "{text}");
        let (host, port) = database.address();
        assert!(text.contains(&format!("{host}:{port}")), "{text}");
    })
    .await;
}

#[test]
fn a_database_that_cannot_be_reached_is_one_line_with_its_address() {
    let url = "postgres://someone:secret@127.0.0.1:1/faces";
    let mut command = facescan(["serve", "--database", url]);
    let mut server = Serving::start(command.stderr(Stdio::piped()));
    let mut stderr = server.process.stderr.take().unwrap();
    server.process.kill().unwrap();
    let mut text = String::new();
    stderr.read_to_string(&mut text).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("127.0.0.1:1"))
        .collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert!(lines[0].contains("Connection refused"), "{text}");
    assert!(
        lines[0].contains("set database.url to its address"),
        "{text}"
    );
    assert!(!text.contains("secret"), "{text}");
}

/// The limit of the size of files is a full disk for the database.
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_cannot_write_is_not_ready_until_it_can() {
    let data = tempfile::tempdir().unwrap();
    let plain = facescan(["serve"]);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "trap '' XFSZ; exec \"$0\" serve"])
        .arg(plain.get_program());
    limited.env_clear().envs(
        plain
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    limited
        .env("FACESCAN__DATA_DIR", data.path())
        .current_dir(data.path());
    let server = Serving::start(&mut limited);
    let is_ready = || ask(&server.address, "/readyz", None);
    assert!(is_ready().starts_with("HTTP/1.1 200"));
    let pid = server.process.id().to_string();
    let limit = |bytes: &str| {
        let limit = format!("--fsize={bytes}:unlimited");
        let limited = Command::new("prlimit")
            .args(["--pid", &pid, &limit])
            .status();
        assert!(limited.unwrap().success());
    };
    limit("4096");
    let image = crate::support::app::image_file("t1.jpg");
    let host = server.address.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!(
        "POST /detect HTTP/1.1\r\nhost: {host}\r\ncontent-type: image/jpeg\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        image.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(&image).unwrap();
    let mut refused = String::new();
    stream.read_to_string(&mut refused).unwrap();
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    for _ in 0..2 {
        let answer = is_ready();
        assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
        assert!(answer.contains("cannot be written"), "{answer}");
    }
    limit("unlimited");
    assert!(is_ready().starts_with("HTTP/1.1 200"));
}
