//! The routes of the server, as its OpenAPI document describes them.

use std::{convert::Infallible, sync::OnceLock, time::Duration};

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::header::{CONTENT_LENGTH, CONTENT_TYPE},
};
use bytes::Bytes;
use futures::stream;
use serde_json::Value;
use tower::ServiceExt;

use crate::{
    cpu_time::{process_time, with_longest_poll},
    server::with_server,
};

/// The router of the server.
static ROUTER: OnceLock<Router> = OnceLock::new();

/// The bytes of a body that arrive at once.
const PIECE: usize = 64 << 10;

/// What a server answers, and what that took.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The body.
    pub body: Bytes,
    /// The longest time that the request has kept the thread that serves all requests.
    pub longest_poll: Duration,
    /// The time that all threads have worked.
    pub time: Duration,
}

/// A route that takes a body.
#[derive(Debug)]
pub struct Route {
    /// The method in capital letters.
    pub method: String,
    /// The path, with an id that nothing has for each parameter.
    pub path: String,
    /// The content types that the route takes.
    pub content_types: Vec<String>,
}

/// Returns the routes that take a body.
pub fn routes_with_bodies() -> Vec<Route> {
    let document = serde_json::to_value(facescan::http::openapi_document()).expect("a document");
    let paths = document["paths"].as_object().expect("an object of paths");
    let operations = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.filter_map(|(method, operation)| route(path, method, operation))
    });
    operations.collect()
}

fn route(path: &str, method: &str, operation: &Value) -> Option<Route> {
    let content = operation["requestBody"]["content"].as_object()?;
    let parts = path.split('/').map(|part| match part.starts_with('{') {
        true => "00000000-0000-7000-8000-000000000000",
        false => part,
    });
    Some(Route {
        method: method.to_ascii_uppercase(),
        path: parts.collect::<Vec<_>>().join("/"),
        content_types: content.keys().cloned().collect(),
    })
}

impl Route {
    /// Sends a body to the route, in pieces as from a connection.
    pub fn send(&self, content_type: &str, body: &Bytes) -> Answer {
        let request = Request::builder()
            .method(self.method.as_str())
            .uri(&self.path)
            .header(CONTENT_TYPE, content_type)
            .header(CONTENT_LENGTH, body.len())
            .body(arriving(body.clone()))
            .expect("a request");
        with_server(async |state| {
            let router = ROUTER.get_or_init(|| facescan::http::router(state.clone()));
            let began = process_time();
            let (Ok(response), longest_poll) =
                with_longest_poll(router.clone().oneshot(request)).await;
            let status = response.status().as_u16();
            let body = to_bytes(response.into_body(), usize::MAX).await;
            Answer {
                status,
                body: body.expect("a body in memory"),
                longest_poll,
                time: process_time().saturating_sub(began),
            }
        })
    }
}

/// Returns a body whose pieces arrive one after another. The server holds only those that it has kept.
fn arriving(body: Bytes) -> Body {
    Body::from_stream(stream::unfold(body, |mut rest| async move {
        // Between two pieces, the server may do something else.
        tokio::task::yield_now().await;
        let piece = rest.split_to(rest.len().min(PIECE));
        let piece = (!piece.is_empty()).then(|| Bytes::copy_from_slice(&piece));
        piece.map(|piece| (Ok::<_, Infallible>(piece), rest))
    }))
}
