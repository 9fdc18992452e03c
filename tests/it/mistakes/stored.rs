//! Mistakes with collections, batches and erasures.

use std::io::Cursor;

use insta::assert_json_snapshot;
use serde_json::json;

use super::{JSON, Mistakes, base64};
use crate::support::app::image_file;

#[tokio::test]
async fn mistakes_with_collections_batches_and_erasures() {
    let settings = [("FACESCAN__RECOGNITION__PURPOSES", "[photo album]")];
    let mut told = Mistakes::with(&settings).await;
    let encoded = base64("obama.jpg");
    told.json(
        "a collection with a name only",
        "/collections",
        &json!({"name": "people"}),
    )
    .await;
    told.json(
        "a collection with wrong fields",
        "/collections",
        &json!({"name": 7, "purpose": "", "legal_basis": true, "retention": 30, "kind": "galery", "consent_required": "yes"}),
    )
    .await;
    let gallery = |purpose: &str| json!({"name": "people", "purpose": purpose, "legal_basis": "consent", "retention_days": 30});
    told.json(
        "a purpose that is not allowed",
        "/collections",
        &gallery("marketing"),
    )
    .await;
    let created = told
        .app
        .post_as("/collections", JSON, gallery("photo album").to_string())
        .await;
    let collection = format!("/collections/{}", created.json()["id"].as_str().unwrap());
    let subjects = format!("{collection}/subjects");
    told.post(
        "a collection as a form",
        "/collections",
        "multipart/form-data",
        "x",
    )
    .await;
    told.json(
        "a consent that is true",
        &subjects,
        &json!({"consent": true}),
    )
    .await;
    told.json(
        "a consent without its fields",
        &subjects,
        &json!({"consent": {"reference": "form 3", "given_at": "yesterday"}, "expires_at": "soon", "name": "A"}),
    )
    .await;
    let mut people = Vec::new();
    for _ in 0..2 {
        let person = told.app.post_as(&subjects, JSON, "{}").await;
        let id = person.json()["id"].as_str().unwrap().to_owned();
        people.push(format!("{subjects}/{id}/enrollments"));
    }
    told.raw("a face to enroll", &people[0], &image_file("obama.jpg"))
        .await;
    for (what, image) in [
        ("an enrollment of a photo of six", "t1.jpg"),
        ("an enrollment of another person's face", "obama2.jpg"),
    ] {
        told.raw(what, &people[1], &image_file(image)).await;
    }
    told.raw("an enrollment of a text", &people[1], b"obama.jpg")
        .await;
    let blank = image::RgbImage::from_pixel(64, 64, image::Rgb([200; 3]));
    let mut png = Cursor::new(Vec::new());
    blank.write_to(&mut png, image::ImageFormat::Png).unwrap();
    told.raw("an enrollment without a face", &people[1], png.get_ref())
        .await;
    let search = format!("{collection}/search");
    let face = json!({"data": encoded});
    told.json(
        "a search without a purpose",
        &search,
        &json!({"faces": [face]}),
    )
    .await;
    told.json(
        "a search with `face`",
        &search,
        &json!({"face": face, "purpose": "photo album"}),
    )
    .await;
    told.json(
        "a search for two faces",
        &search,
        &json!({"faces": [face, face], "options": {"purpose": "photo album"}}),
    )
    .await;
    told.json("a search that is too long", &search, &json!({"faces": [face], "options": {"purpose": "photo album", "limit": 500, "by": "person"}})).await;
    told.json(
        "a batch without an operation",
        "/batches",
        &json!({"items": []}),
    )
    .await;
    told.json(
        "a batch without items",
        "/batches",
        &json!({"operation": "detect"}),
    )
    .await;
    let open = json!({"operation": "detect", "open": true}).to_string();
    let open = told.app.post_as("/batches", JSON, open).await;
    let items = format!("/batches/{}/items", open.json()["id"].as_str().unwrap());
    told.json("items that are none", &items, &json!({"items": []}))
        .await;
    told.json(
        "a batch of `images`",
        "/batches",
        &json!({"operation": "detect", "images": []}),
    )
    .await;
    told.json(
        "a batch that sings",
        "/batches",
        &json!({"operation": "sing", "nmae": "a", "open": "yes"}),
    )
    .await;
    told.json(
        "a batch with a wrong option",
        "/batches",
        &json!({"operation": "detect", "options": {"max_face": 1, "min_score": 7}}),
    )
    .await;
    told.post(
        "a batch of lines without a head",
        "/batches",
        "application/x-ndjson",
        "",
    )
    .await;
    told.post(
        "a batch of lines that begins with a list",
        "/batches",
        "application/x-ndjson",
        "[1]",
    )
    .await;
    told.json(
        "a clustering of no library",
        &format!("{collection}/clusterings"),
        &json!({"min_faces": 0}),
    )
    .await;
    told.json(
        "a webhook over http",
        "/webhooks",
        &json!({"url": "http://example.org/hook"}),
    )
    .await;
    told.json(
        "a webhook of a private host",
        "/webhooks",
        &json!({"url": "https://127.0.0.1/hook"}),
    )
    .await;
    told.json(
        "a webhook without its url",
        "/webhooks",
        &json!({"uri": "https://example.org"}),
    )
    .await;
    told.json(
        "an erasure of two things",
        "/erasures",
        &json!({"source": "a", "host": "b"}),
    )
    .await;
    told.json("an erasure of nothing", "/erasures", &json!({}))
        .await;
    told.json(
        "an erasure of no id",
        "/erasures",
        &json!({"image": "a.jpg"}),
    )
    .await;
    told.post("an erasure as text", "/erasures", "text/plain", "image")
        .await;
    assert_json_snapshot!(told.told);
}
