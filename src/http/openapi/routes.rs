//! Routes whose handlers return documented types.

use axum::http::Method;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa_axum::router::UtoipaMethodRouter;

use super::documented::{Description, Documented};
use crate::http::AppState;

/// Collects handlers of one path, as `utoipa_axum::routes` does. Each handler also describes its success responses: its type
/// must be [`Documented`], and its annotation names only errors.
macro_rules! routes {
    ($($handler:path),+ $(,)?) => {{
        let routes = Default::default();
        $(let routes = $crate::http::openapi::routes::add(routes, utoipa_axum::routes!($handler), $handler);)+
        routes
    }};
}
pub(crate) use routes;

/// A handler that returns a documented type.
pub trait DocumentedHandler<Arguments> {
    /// The type.
    type Returned: Documented;
}

macro_rules! documented_handler {
    ($($argument:ident),*) => {
        impl<H, F, R, $($argument),*> DocumentedHandler<($($argument,)*)> for H
        where
            H: Fn($($argument),*) -> F,
            F: Future<Output = R>,
            R: Documented,
        {
            type Returned = R;
        }
    };
}

documented_handler!(A);
documented_handler!(A, B);
documented_handler!(A, B, C);

/// Adds a handler to those of its path, with its part of the document.
pub fn add<A, H: DocumentedHandler<A>>(
    (mut schemas, mut paths, router): UtoipaMethodRouter<AppState>,
    (own_schemas, mut own_paths, own_router): UtoipaMethodRouter<AppState>,
    _handler: H,
) -> UtoipaMethodRouter<AppState> {
    let mut description = Description::default();
    H::Returned::describe(&mut description);
    for operation in own_paths.paths.values_mut().flat_map(operations) {
        let responses = &mut operation.responses.responses;
        responses.extend(description.responses.clone());
    }
    schemas.extend(own_schemas);
    schemas.extend(description.schemas);
    paths.merge(own_paths);
    (schemas, paths, router.merge(own_router))
}

/// Returns the operations of a path by method.
pub fn by_method(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let operations = [
        (Method::GET, &item.get),
        (Method::POST, &item.post),
        (Method::PUT, &item.put),
        (Method::PATCH, &item.patch),
        (Method::DELETE, &item.delete),
    ];
    let operations = operations.into_iter();
    operations.filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

/// Returns the operations of a path, to change them.
pub fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let operations = [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.patch,
    ];
    operations.into_iter().flatten()
}
