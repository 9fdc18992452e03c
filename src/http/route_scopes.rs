//! The scope that each route needs, read from the OpenAPI document.
//!
//! A route names its scope in its annotation: `security(("key" = ["read"]))`. The routes of operations on images have theirs
//! from the table of operations. So the document and the check cannot differ.

use std::collections::HashMap;

use axum::http::Method;
use facescan_config::scope::Scope;
use utoipa::openapi::{OpenApi, path::Operation, security::SecurityRequirement};

use crate::http::openapi::routes::by_method;

/// The name of the security scheme in annotations.
pub const SCHEME: &str = "key";

/// The routes that are not in the document and need no key: the document and its user interface.
const OPEN_PATHS: [&str; 3] = ["/", "/openapi.json", "/docs"];

/// What a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// Nothing.
    Open,
    /// A valid key.
    Key,
    /// A key with a scope.
    Scope(Scope),
}

/// The requirement of each route.
#[derive(Debug)]
pub struct RouteScopes {
    /// The operations of each path. `None` if every route is open.
    paths: Option<HashMap<String, HashMap<Method, Requirement>>>,
}

impl RouteScopes {
    /// Reads the requirements of a document.
    pub fn from_document(document: &OpenApi) -> Self {
        let mut paths = HashMap::new();
        for (path, item) in &document.paths.paths {
            let operations = by_method(item);
            let requirements =
                operations.map(|(method, operation)| (method, requirement(operation)));
            paths.insert(path.clone(), requirements.collect());
        }
        Self { paths: Some(paths) }
    }

    /// Opens every route.
    pub fn open() -> Self {
        Self { paths: None }
    }

    /// Returns what a request to a route needs. `path` is the path of the route, such as `/images/{id}`.
    pub fn requirement(&self, method: &Method, path: &str) -> Requirement {
        // Every GET route answers HEAD too.
        let method = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        let Some(paths) = &self.paths else {
            return Requirement::Open;
        };
        match paths.get(path) {
            Some(operations) => *operations.get(method).unwrap_or(&Requirement::Key),
            None if is_open(path) => Requirement::Open,
            None => Requirement::Scope(Scope::Admin),
        }
    }
}

fn is_open(path: &str) -> bool {
    OPEN_PATHS.contains(&path) || path.starts_with("/docs/")
}

/// Returns the requirement of an operation. One without a scope needs the rarest one.
fn requirement(operation: &Operation) -> Requirement {
    let security = operation.security.as_deref().unwrap_or_default();
    let is_open =
        |requirement: &SecurityRequirement| *requirement == SecurityRequirement::default();
    match scope(operation) {
        Some(scope) => Requirement::Scope(scope),
        None if !security.is_empty() && security.iter().all(is_open) => Requirement::Open,
        None => Requirement::Scope(Scope::Admin),
    }
}

/// Returns the scope that an operation needs.
pub fn scope(operation: &Operation) -> Option<Scope> {
    operation.security.iter().flatten().find_map(|requirement| {
        let value = serde_json::to_value(requirement).ok()?;
        Scope::of_name(value.get(SCHEME)?.get(0)?.as_str()?)
    })
}
