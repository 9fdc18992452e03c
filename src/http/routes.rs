//! The routes: one line for the handlers of each path.

use facescan_pipeline::operation::ScanKind;
use utoipa_axum::router::OpenApiRouter;

use super::{
    AppState,
    handlers::{
        batches, calibration, clusterings, collections, devices, enhance, enrollments, erasures,
        faces, health, images, keys, library_faces, metrics, models, people, preprocess, process,
        scan, searches, subjects, verify, webhooks,
    },
    openapi::{self, routes::routes},
};

/// Returns the routes that the OpenAPI document describes, apart from that of the metrics.
pub(super) fn api() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(openapi::base())
        .merge(image_routes())
        .merge(recognition_routes())
        .merge(library_routes())
        .merge(batch_routes())
        .merge(stored_routes())
        .merge(server_routes())
        .merge(health())
}

/// Returns the routes that tell whether the process and the server work.
pub(super) fn health() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(utoipa_axum::routes!(health::livez))
        .routes(routes!(health::readyz))
}

/// Returns the route of the metrics, which can have a listener of its own.
pub(super) fn metrics() -> OpenApiRouter<AppState> {
    OpenApiRouter::new().routes(utoipa_axum::routes!(metrics::read))
}

fn image_routes() -> OpenApiRouter<AppState> {
    let with_embed = OpenApiRouter::new().routes(routes!(scan::embed));
    ScanKind::ALL
        .into_iter()
        .filter(|kind| !kind.has_whole_images())
        .fold(with_embed, |router, kind| {
            router.routes(scan::face_scan(kind))
        })
        .routes(routes!(enhance::enhance))
        .routes(routes!(process::process))
        .routes(routes!(preprocess::preprocess))
}

fn recognition_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(verify::verify))
        .routes(routes!(calibration::list))
        .routes(routes!(collections::create, collections::list))
        .routes(routes!(
            collections::read,
            collections::change,
            collections::erase
        ))
        .routes(routes!(subjects::create, subjects::list))
        .routes(routes!(subjects::read, subjects::change, subjects::erase))
        .routes(routes!(enrollments::enroll, enrollments::list))
        .routes(routes!(enrollments::erase))
        .routes(routes!(searches::search))
        .routes(routes!(searches::search_for_several, searches::list))
}

fn library_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(library_faces::enroll, library_faces::list))
        .routes(routes!(clusterings::create, clusterings::list))
        .routes(routes!(clusterings::read))
        .routes(routes!(clusterings::cancel))
        .routes(routes!(people::list))
        .routes(routes!(people::merge))
        .routes(routes!(people::read, people::rename, people::erase))
        .routes(routes!(people::split))
        .routes(routes!(people::assign, people::unpin))
}

fn batch_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(batches::submit::create, batches::list))
        .routes(routes!(batches::read, batches::delete))
        .routes(routes!(batches::submit::add_items, batches::items::list))
        .routes(routes!(batches::close))
        .routes(routes!(batches::cancel))
        .routes(routes!(batches::retry))
        .routes(routes!(batches::events::stream))
        .routes(routes!(webhooks::create, webhooks::list))
        .routes(routes!(webhooks::delete))
        .routes(routes!(webhooks::enable))
        .routes(routes!(webhooks::rotate))
}

fn stored_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(images::list))
        .routes(routes!(images::read, images::erase))
        .routes(routes!(faces::read, faces::erase))
        .routes(routes!(erasures::create))
        .routes(routes!(erasures::read))
}

fn server_routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(utoipa_axum::routes!(models::list))
        .routes(routes!(devices::list))
        .routes(routes!(keys::create, keys::list))
        .routes(routes!(keys::revoke))
}
