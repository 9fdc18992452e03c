//! Failures of remote servers: which runs are retried, and which errors are reported.

use facescan_inference::backend::{
    BackendError,
    kserve::{Kserve, RemoteSpec},
};
use facescan_telemetry::metrics::Metrics;

use super::{EXCHANGE, assert_right, context, recorded, recorded_answer, rig, rig_of, spec};
use crate::support::wire::{Reply, WireServer, first_line};

#[tokio::test]
async fn opening_fails_if_the_server_or_the_model_is_not_ready() {
    for (line, answer, says) in [
        (
            0,
            Reply::json("503 Service Unavailable", "", ""),
            "503 Service Unavailable",
        ),
        // The wording of Triton.
        (
            1,
            Reply::json(
                "400 Bad Request",
                "",
                r#"{"error":"Model version not ready"}"#,
            ),
            "400 Bad Request: Model version not ready",
        ),
        (
            2,
            Reply::json("404 Not Found", "", "{\"error\":\"a\\u0000\\nb\"}"),
            "404 Not Found: a b",
        ),
        (
            2,
            Reply::json("200 OK", "", "{}"),
            "metadata: missing field",
        ),
        (
            2,
            Reply::json("302 Found", "location: http://127.0.0.1:1/\r\n", ""),
            "302 Found",
        ),
    ] {
        let Reply::Bytes(answer) = answer else {
            unreachable!()
        };
        let rig = rig_of("retries: 0", move |request, _| {
            let is_it = first_line(request) == EXCHANGE[line].0;
            Reply::Bytes(if is_it {
                answer.clone()
            } else {
                recorded_answer(request)
            })
        })
        .await;
        let error = rig.session.err().unwrap();
        assert!(matches!(error, BackendError::Unavailable(_)), "{error}");
        let told = error.to_string();
        assert!(told.contains(says), "{told}");
        assert!(told.contains(&rig.server.url()), "{told}");
        assert_eq!(rig.server.requests().len(), line + 1, "{told}");
    }
}

#[tokio::test]
async fn opening_waits_for_a_server_that_starts_late() {
    let rig = rig_of("retries: 2", |request, number| {
        if first_line(request) == EXCHANGE[0].0 && number < 2 {
            return Reply::json("503 Service Unavailable", "", "");
        }
        Reply::Bytes(recorded_answer(request))
    })
    .await;
    assert_eq!(rig.session.unwrap().signature().inputs.len(), 1);
}

#[tokio::test]
async fn opening_fails_if_the_server_is_unreachable() {
    let gone = WireServer::start(|_, _| Reply::Silence).await;
    let spec = spec(&gone, "retries: 1");
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let free = listener.local_addr().unwrap();
    drop(listener);
    let spec = RemoteSpec {
        url: format!("http://{free}").try_into().unwrap(),
        ..spec
    };
    let metrics = Metrics::default();
    let error = Kserve::open(&spec, context(&spec, &metrics))
        .await
        .err()
        .unwrap();
    let told = error.to_string();
    assert!(
        told.contains("the connection failed") && told.contains("refused"),
        "{told}"
    );
}

#[tokio::test]
async fn a_temporary_failure_is_retried() {
    type Fails = fn() -> Reply;
    let failures: [(&str, Fails); 5] = [
        ("busy", || {
            Reply::json("503 Service Unavailable", "retry-after: 0\r\n", "")
        }),
        ("busy", || Reply::json("429 Too Many Requests", "", "")),
        ("busy", || Reply::json("502 Bad Gateway", "", "")),
        ("busy", || Reply::json("504 Gateway Timeout", "", "")),
        ("connection", || Reply::Last(Vec::new())),
    ];
    for (reason, failure) in failures {
        let mut rig = rig("", move |number| match number {
            0 => failure(),
            _ => Reply::Bytes(recorded("infer.response")),
        })
        .await;
        assert_right(&rig.run().await.unwrap());
        let requests = rig.server.requests();
        assert_eq!(requests.len(), 5);
        assert!(
            requests[3] == requests[4],
            "the retry sends the same request with the same id"
        );
        rig.assert_counted(&format!(
            r#"facescan_remote_retries_total{{model="encoder",reason="{reason}"}} 1"#
        ));
        rig.assert_counted(r#"facescan_remote_runs_total{model="encoder",outcome="ok"} 1"#);
    }
}

#[tokio::test]
async fn a_permanent_failure_is_not_retried() {
    let answer = || recorded("infer.response");
    let replaced = |from: &str, to: &str| {
        let bytes = answer();
        let at = bytes
            .windows(from.len())
            .position(|it| it == from.as_bytes())
            .unwrap();
        [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
    };
    for (reply, outcome, says) in [
        (
            Reply::json("400 Bad Request", "", r#"{"error":"unexpected shape"}"#),
            "refused",
            "400 Bad Request: unexpected shape",
        ),
        (
            Reply::json("404 Not Found", "", ""),
            "refused",
            "404 Not Found",
        ),
        (
            Reply::json("307 Temporary Redirect", "location: /elsewhere\r\n", ""),
            "refused",
            "307 Temporary Redirect",
        ),
        (
            Reply::json("200 OK", "", "{}"),
            "malformed",
            "no binary tensors",
        ),
        (
            Reply::Bytes(replaced(
                "Inference-Header-Content-Length: 1",
                "Inference-Header-Content-Length: -",
            )),
            "malformed",
            "is no number",
        ),
        (
            Reply::Last(answer()[..answer().len() - 1].to_vec()),
            "malformed",
            "its body ends early",
        ),
        (
            Reply::Bytes(replaced(r#""id":"1""#, r#""id":"2""#)),
            "malformed",
            r#"the id "2""#,
        ),
        (
            Reply::json("200 OK", "", &" ".repeat(1025)),
            "too_large",
            "larger than 1024 bytes",
        ),
        // The response has no content length.
        (
            Reply::Last(
                [
                    b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n",
                    &[b' '; 2048][..],
                ]
                .concat(),
            ),
            "too_large",
            "larger than 1024 bytes",
        ),
    ] {
        let reply = std::sync::Mutex::new(Some(reply));
        let mut rig = rig("max_response_bytes: 1024", move |_| {
            reply.lock().unwrap().take().unwrap_or(Reply::Silence)
        })
        .await;
        let told = rig.run().await.unwrap_err();
        assert!(told.contains(says), "{told}");
        assert_eq!(rig.runs(), 1, "{told}");
        rig.assert_counted(&format!(
            r#"facescan_remote_runs_total{{model="encoder",outcome="{outcome}"}} 1"#
        ));
    }
}

#[tokio::test]
async fn a_run_without_an_answer_times_out() {
    let mut rig = rig("timeout_ms: 60000\nconnect_timeout_ms: 600000", |_| {
        Reply::Silence
    })
    .await;
    // The paused clock advances as soon as all tasks are idle.
    tokio::time::pause();
    let told = rig.run().await.unwrap_err();
    assert!(told.contains("no response within 60000 ms"), "{told}");
    rig.assert_counted(r#"facescan_remote_runs_total{model="encoder",outcome="timeout"} 1"#);
}
