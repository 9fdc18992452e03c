//! Routes whose handlers return documented types.

use axum::{http::Method, routing::MethodRouter};
use utoipa::openapi::{
    RefOr,
    path::{Operation, PathItem, Paths},
    schema::Schema,
};
use utoipa_axum::router::UtoipaMethodRouter;

use super::documented::{Description, Documented};
use crate::http::AppState;

/// Collects handlers of one path, as `utoipa_axum::routes` does. Each handler also describes its success responses: its type
/// must be [`Documented`], and its annotation names only errors.
macro_rules! routes {
    ($($handler:path),+ $(,)?) => {{
        let routes = $crate::http::openapi::routes::Routes::default();
        $(let routes = routes.with(utoipa_axum::routes!($handler), $handler);)+
        routes.into_method_router()
    }};
}
pub(crate) use routes;

/// Handlers of one path.
#[derive(Default)]
pub struct Routes {
    schemas: Vec<(String, RefOr<Schema>)>,
    paths: Paths,
    router: MethodRouter<AppState>,
}

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

documented_handler!();
documented_handler!(A);
documented_handler!(A, B);
documented_handler!(A, B, C);
documented_handler!(A, B, C, D);
documented_handler!(A, B, C, D, E);

impl Routes {
    /// Adds a handler with its part of the document.
    pub fn with<A, H: DocumentedHandler<A>>(
        mut self,
        (schemas, paths, router): UtoipaMethodRouter<AppState>,
        _handler: H,
    ) -> Self {
        let mut description = Description::default();
        H::Returned::describe(&mut description);
        self.schemas.extend(schemas);
        self.schemas.extend(description.schemas);
        for (path, mut item) in paths.paths {
            for operation in operations(&mut item) {
                let responses = &mut operation.responses.responses;
                responses.extend(description.responses.clone());
            }
            match self.paths.paths.get_mut(&path) {
                Some(known) => known.merge_operations(item),
                None => {
                    self.paths.paths.insert(path, item);
                }
            }
        }
        self.router = self.router.merge(router);
        self
    }

    /// Returns what an `OpenApiRouter` takes.
    pub fn into_method_router(self) -> UtoipaMethodRouter<AppState> {
        (self.schemas, self.paths, self.router)
    }
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
