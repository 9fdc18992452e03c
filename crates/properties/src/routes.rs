//! The routes of the server, as its OpenAPI document describes them.

use std::sync::OnceLock;

use axum::{
    Router,
    body::{Body, to_bytes},
    extract::Request,
    http::header::CONTENT_TYPE,
};
use bytes::Bytes;
use serde_json::Value;
use tower::ServiceExt;

use crate::server::with_server;

/// The router of the server.
static ROUTER: OnceLock<Router> = OnceLock::new();

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
    /// Sends a body to the route. Returns the status and the body of the response.
    pub fn send(&self, content_type: &str, body: Bytes) -> (u16, Bytes) {
        let request = Request::builder()
            .method(self.method.as_str())
            .uri(&self.path)
            .header(CONTENT_TYPE, content_type)
            .body(Body::from(body))
            .expect("a request");
        with_server(async |state| {
            let router = ROUTER.get_or_init(|| facescan::http::router(state.clone()));
            let Ok(response) = router.clone().oneshot(request).await;
            let status = response.status().as_u16();
            let body = to_bytes(response.into_body(), usize::MAX).await;
            (status, body.expect("a body in memory"))
        })
    }
}
