//! Items of a batch that name their images by URL.

use serde_json::json;

use super::{id_of, process_all, read, submit};
use crate::{
    support::app::TestApp,
    urls::{LOCAL, images},
};

#[tokio::test(flavor = "multi_thread")]
async fn the_fetch_of_an_item_is_recorded_as_a_stage_like_that_of_a_request() {
    let (app, server) = (TestApp::with(&LOCAL).await, images().await);
    for (operation, options) in [
        ("detect", json!({})),
        (
            "process",
            json!({"operations": [{"op": "resize", "width": 64}]}),
        ),
    ] {
        let body = json!({
            "operation": operation, "options": options,
            "items": [{"id": "a", "url": format!("{server}/t1.jpg")}],
        });
        let id = id_of(&submit(&app, &body).await);
        process_all(&app).await;
        assert_eq!(read(&app, &id).await["counts"]["ok"], 1, "{operation}");
    }
    app.assert_metrics(&[r#"facescan_stage_seconds_count{stage="fetch"} 2"#]);
}
