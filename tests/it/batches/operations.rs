//! Operations whose results are images.

use axum::http::StatusCode;
use serde_json::json;

use super::{id_of, item, items, process_all, read, stored_files, submit};
use crate::support::{
    app::{TestApp, result_of},
    values::assert_fields,
};

#[tokio::test(flavor = "multi_thread")]
async fn images_that_an_operation_makes_are_kept_with_the_batch() {
    let app = TestApp::with(&[("FACESCAN__BATCHES__CHUNK_SIZE", "2")]).await;
    let payloads = app.app.config.data_dir.join("payloads");
    let body = json!({
        "operation": "enhance", "options": {"format": "png", "upscale": 1},
        "items": [item("a", "t1.jpg"), item("copy", "t1.jpg"), item("later copy", "t1.jpg")],
    });
    let id = id_of(&submit(&app, &body).await);
    assert_eq!(
        stored_files(&payloads).len(),
        1,
        "equal images are stored once"
    );
    process_all(&app).await;
    let done = read(&app, &id).await;
    assert_fields!(done, {"state": "done", "counts": {"ok": 3, "cached": 2}});
    let own = result_of(&app, "/enhance?format=png&upscale=1", "t1.jpg").await;
    for item in items(&app, &id, "").await {
        assert_eq!(item["result"]["enhanced"], own["enhanced"]);
        assert_eq!(item["result"]["image"], own["image"]);
    }
    let light = items(&app, &id, "data=false").await;
    assert!(light[0]["result"]["enhanced"].get("data").is_none());
    assert_eq!(light[0]["result"]["enhanced"]["format"], "png");
    // The submitted image is not needed any more, and the enhanced one is.
    app.app.batches.sweep().await.unwrap();
    let kept = stored_files(&payloads);
    assert!(
        kept.len() == 1 && kept.keys().all(|name| name.contains("/out/")),
        "{kept:?}"
    );
    assert_eq!(
        app.delete(&format!("/batches/{id}")).await.status,
        StatusCode::NO_CONTENT
    );
    assert!(stored_files(&payloads).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn processing_can_make_several_images_of_one() {
    let app = TestApp::start().await;
    let operations = json!([{"op": "crop", "faces": true}]);
    let body = json!({"operation": "process", "options": {"operations": operations}, "items": [item("a", "t1.jpg")]});
    let id = id_of(&submit(&app, &body).await);
    process_all(&app).await;
    let own = super::post_json(
        &app,
        "/process",
        &json!({"options": {"operations": operations}, "images": [item("a", "t1.jpg")]}),
    )
    .await
    .result();
    let listed = items(&app, &id, "").await;
    assert_eq!(own["processed"].as_array().unwrap().len(), 6);
    assert_eq!(listed[0]["result"]["processed"], own["processed"]);
    assert_eq!(listed[0]["result"]["steps"], own["steps"]);
}
