//! Mistakes with the image of a request.

use insta::assert_json_snapshot;

use super::{Mistakes, Part};
use crate::support::app::image_file;

#[tokio::test]
async fn mistakes_with_the_image_of_a_request() {
    let mut told = Mistakes::with(&[("FACESCAN__LIMITS__MAX_IMAGE_BYTES", "700000")]).await;
    let (photo, small) = (image_file("t1.jpg"), image_file("obama.jpg"));
    assert!(photo.len() > 64 << 10, "longer than an option may be");
    let store = ("store", None, &b"false"[..]);
    for name in ["file", "files", "images", "image[]"] {
        let part = (name, Some("t1.jpg"), &photo[..]);
        told.form(
            &format!("a form with the part `{name}`"),
            "/detect",
            &[part, store],
        )
        .await;
    }
    let (a, b) = (Some("a.jpg"), Some("b.jpg"));
    let forms: [(&str, &str, &[Part<'_>]); 7] = [
        (
            "a form with the part `photo`",
            "/detect",
            &[("photo", Some("t1.jpg"), &photo)],
        ),
        (
            "a form with an image without the name of a file",
            "/detect",
            &[("photo", None, &photo)],
        ),
        ("a form with options only", "/detect", &[store]),
        ("an empty form", "/detect", &[]),
        (
            "a form with the name of a file",
            "/detect",
            &[("image", None, b"photo.jpg"), store],
        ),
        (
            "a form with an empty file",
            "/detect",
            &[("image", a, b""), store],
        ),
        (
            "a comparison of the parts `img1` and `img2`",
            "/verify",
            &[("img1", a, &photo), ("img2", b, &small)],
        ),
    ];
    for (what, uri, parts) in forms {
        told.form(what, uri, parts).await;
    }
    let one = [("a", a, &small[..])];
    told.form("a comparison of one image", "/verify", &one)
        .await;
    told.raw("an empty body", "/detect", b"").await;
    told.raw("a short text as an image", "/detect", b"photo.jpg")
        .await;
    let text = "some text\n".repeat(100);
    let files: [(&str, &[u8]); 8] = [
        ("a long text", text.as_bytes()),
        ("a pdf", b"%PDF-1.7 \xFF"),
        ("an svg", b"<svg xmlns=\"http://www.w3.org/2000/svg\"/>"),
        ("a page", b"<!DOCTYPE html><p>"),
        ("a heic", b"\0\0\0\x18ftypheic\0\0\0\0mif1heic"),
        ("an avif", b"\0\0\0\x1Cftypavif\0\0\0\0mif1miaf"),
        ("unknown bytes", b"\0\x01\x02\x03\xFF"),
        ("a jpeg that ends early", &photo[..40_000]),
    ];
    for (what, bytes) in files {
        told.raw(&format!("{what} as an image"), "/detect?store=false", bytes)
            .await;
    }
    told.raw(
        "an image above the limit",
        "/detect?store=false",
        &image_file("astronaut.png"),
    )
    .await;
    assert_json_snapshot!(told.told);
}
