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
    let gallery = |purpose: &str| json!({"name": "people", "purpose": purpose, "legal_basis": "consent", "retention_days": 30});
    let wrong_fields = json!({"name": 7, "purpose": "", "legal_basis": true, "retention": 30, "kind": "galery", "consent_required": "yes"});
    for (what, body) in [
        ("a collection with a name only", json!({"name": "people"})),
        ("a collection with wrong fields", wrong_fields),
        ("a purpose that is not allowed", gallery("marketing")),
    ] {
        told.json(what, "/collections", &body).await;
    }
    let created = told
        .app
        .post_as("/collections", JSON, gallery("photo album").to_string())
        .await;
    let collection = format!("/collections/{}", created.json()["id"].as_str().unwrap());
    let subjects = format!("{collection}/subjects");
    let form = "multipart/form-data";
    told.post("a collection as a form", "/collections", form, "x")
        .await;
    let no_times = json!({"consent": {"reference": "form 3", "given_at": "yesterday"}, "expires_at": "soon", "name": "A"});
    for (what, body) in [
        ("a consent that is true", json!({"consent": true})),
        ("a consent without its fields", no_times),
    ] {
        told.json(what, &subjects, &body).await;
    }
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
    let purpose = json!({"purpose": "photo album"});
    let too_long = json!({"purpose": "photo album", "limit": 500, "by": "person"});
    for (what, body) in [
        ("a search without a purpose", json!({"faces": [face]})),
        (
            "a search with `face`",
            json!({"face": face, "purpose": "photo album"}),
        ),
        (
            "a search for two faces",
            json!({"faces": [face, face], "options": purpose}),
        ),
        (
            "a search that is too long",
            json!({"faces": [face], "options": too_long}),
        ),
    ] {
        told.json(what, &search, &body).await;
    }
    for (what, body) in [
        ("a batch without an operation", json!({"items": []})),
        ("a batch without items", json!({"operation": "detect"})),
    ] {
        told.json(what, "/batches", &body).await;
    }
    let open = json!({"operation": "detect", "open": true}).to_string();
    let open = told.app.post_as("/batches", JSON, open).await;
    let items = format!("/batches/{}/items", open.json()["id"].as_str().unwrap());
    told.json("items that are none", &items, &json!({"items": []}))
        .await;
    let options = json!({"max_face": 1, "min_score": 7});
    for (what, body) in [
        (
            "a batch of `images`",
            json!({"operation": "detect", "images": []}),
        ),
        (
            "a batch that sings",
            json!({"operation": "sing", "nmae": "a", "open": "yes"}),
        ),
        (
            "a batch with a wrong option",
            json!({"operation": "detect", "options": options}),
        ),
    ] {
        told.json(what, "/batches", &body).await;
    }
    for (what, body) in [
        ("a batch of lines without a head", ""),
        ("a batch of lines that begins with a list", "[1]"),
    ] {
        told.post(what, "/batches", "application/x-ndjson", body)
            .await;
    }
    let clusterings = format!("{collection}/clusterings");
    for (what, uri, body) in [
        (
            "a clustering of no library",
            clusterings.as_str(),
            json!({"min_faces": 0}),
        ),
        (
            "a webhook over http",
            "/webhooks",
            json!({"url": "http://example.org/hook"}),
        ),
        (
            "a webhook of a private host",
            "/webhooks",
            json!({"url": "https://127.0.0.1/hook"}),
        ),
        (
            "a webhook without its url",
            "/webhooks",
            json!({"uri": "https://example.org"}),
        ),
        (
            "an erasure of two things",
            "/erasures",
            json!({"source": "a", "host": "b"}),
        ),
        ("an erasure of nothing", "/erasures", json!({})),
        (
            "an erasure of no id",
            "/erasures",
            json!({"image": "a.jpg"}),
        ),
    ] {
        told.json(what, uri, &body).await;
    }
    told.post("an erasure as text", "/erasures", "text/plain", "image")
        .await;
    assert_json_snapshot!(told.told);
}
