//! The HTTP layer: thin handlers over the pipeline.

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header::CACHE_CONTROL},
    middleware::{from_fn, from_fn_with_state},
    response::Redirect,
    routing::get,
};
use tokio::net::TcpListener;
use tower_http::{catch_panic::CatchPanicLayer, set_header::SetResponseHeaderLayer};
use utoipa::openapi::OpenApi;

use crate::app::App;
use elsewhere::Addresses;
use route_scopes::RouteScopes;
use server::{ReadingLimit, ServerOptions, tls::Tls};

mod elsewhere;
pub mod error;
pub mod extract;
mod handlers;
mod middleware;
mod openapi;
mod problem;
mod respond;
mod route_scopes;
mod routes;
pub mod server;
mod wrapped_body;

/// The state that every handler receives.
pub type AppState = Arc<App>;

/// Builds the router with all routes and middleware.
pub fn router(app: AppState) -> Router {
    let has_own_listener = app.config.metrics.address.is_some();
    let api = if has_own_listener {
        routes::api()
    } else {
        routes::api().merge(routes::metrics())
    };
    let (routes, document) = api.split_for_parts();
    let document = openapi::complete(document);
    let scopes = RouteScopes::from_document(&document);
    let documented = Documented::new(&document, scopes);
    let routes = routes
        .merge(handlers::docs::routes(document))
        .route("/", get(|| async { Redirect::to("/docs/") }));
    with_layers(routes, documented, app)
}

/// Builds the router of a listener for probes and Prometheus: health and metrics, without access control.
pub fn metrics_router(app: AppState) -> Router {
    let routes = routes::health().merge(routes::metrics());
    let (routes, document) = routes.split_for_parts();
    let documented = Documented::new(&document, RouteScopes::open());
    with_layers(routes, documented, app)
}

/// What the layers take from the OpenAPI document.
struct Documented {
    scopes: RouteScopes,
    addresses: Addresses,
    response_headers: Vec<HeaderName>,
}

impl Documented {
    fn new(document: &OpenApi, scopes: RouteScopes) -> Self {
        Self {
            scopes,
            addresses: Addresses::from_document(document),
            response_headers: middleware::cors::response_headers(document),
        }
    }
}

fn with_layers(routes: Router<AppState>, documented: Documented, app: AppState) -> Router {
    let Documented {
        scopes,
        addresses,
        response_headers,
    } = documented;
    let addresses = Arc::new(addresses);
    let known = Arc::clone(&addresses);
    let origins = &app.config.server.cors_origins;
    let cors = (!origins.is_empty()).then(|| middleware::cors::layer(origins, response_headers));
    let routes = routes
        .fallback(move |uri: Uri| async move { addresses.not_found(uri.path()) })
        .method_not_allowed_fallback(
            move |method: Method, uri: Uri, headers: HeaderMap| async move {
                known.not_allowed(&method, uri.path(), &headers)
            },
        )
        // The last layer runs first: headers for browsers, CORS, caching, context, access log, arrival of the body, problem body, access, panics, address,
        // deadline. The layer of problem bodies is outside access, panics and deadline, because it writes the body of their errors.
        .layer(from_fn_with_state(
            Arc::clone(&app),
            middleware::deadline::enforce,
        ))
        .layer(from_fn(middleware::address::check))
        .layer(CatchPanicLayer::custom(middleware::panics::response))
        .layer(from_fn_with_state(
            (Arc::clone(&app), Arc::new(scopes)),
            middleware::access::authorize,
        ))
        .layer(from_fn(middleware::problem_body::write))
        .layer(from_fn_with_state(
            Arc::clone(&app),
            middleware::arrival::watch,
        ))
        .layer(from_fn_with_state(
            Arc::clone(&app),
            middleware::access_log::log,
        ))
        .layer(from_fn_with_state(
            Arc::clone(&app),
            middleware::context::open,
        ))
        // Answers have faces, vectors and secrets, so no cache on the way keeps them.
        .layer(SetResponseHeaderLayer::if_not_present(
            CACHE_CONTROL,
            HeaderValue::from_static("no-store"),
        ))
        .with_state(app);
    let routes = match cors {
        None => routes,
        Some(cors) => routes.layer(cors),
    };
    routes.layer(from_fn(middleware::security_headers::add))
}

/// Serves requests, over TLS if there is a certificate, until `stopped` resolves and no request is running.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Tls>,
    app: AppState,
    stopped: impl Future<Output = ()> + Send + 'static,
) {
    let options = server_options(&app, tls);
    server::serve(listener, router(app), options, stopped).await;
}

/// Serves the health and the metrics of a process until `stopped` resolves.
pub async fn serve_metrics(
    listener: TcpListener,
    app: AppState,
    stopped: impl Future<Output = ()> + Send + 'static,
) {
    let options = server_options(&app, None);
    server::serve(listener, metrics_router(app), options, stopped).await;
}

fn server_options(app: &AppState, tls: Option<Tls>) -> ServerOptions {
    let server = &app.config.server;
    ServerOptions {
        tls,
        header_timeout: server.header_timeout_ms.duration(),
        idle_timeout: server.idle_timeout_ms.duration(),
        reading: ReadingLimit {
            grace: server.header_timeout_ms.duration(),
            bytes_per_s: server.min_response_bytes_per_s,
        },
        max_connections: server.max_connections,
        metrics: app.metrics.clone(),
    }
}

/// Returns the OpenAPI document.
pub fn openapi_document() -> OpenApi {
    openapi::complete(routes::api().merge(routes::metrics()).into_openapi())
}
