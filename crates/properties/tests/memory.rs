//! No structured body takes more than twice its length of memory, at any route and in any format that the route takes.

use bytes::Bytes;
use facescan_properties::{Route, routes_with_bodies};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// The length of each body, in bytes.
const LENGTH: usize = 1 << 20;

/// What a request takes beside its body, in bytes: the most items that a submission may have, and the server's own work.
const BESIDE_BODY: usize = 5 << 20;

const EDGE: &str = "multipart/form-data; boundary=edge";

/// A body of [`LENGTH`] bytes: a beginning, as many copies of a middle as fit, and an end.
fn filled(beginning: &[u8], middle: &[u8], end: &[u8]) -> Vec<u8> {
    let copies = (LENGTH - beginning.len() - end.len()) / middle.len();
    [beginning, &middle.repeat(copies), end].concat()
}

/// JSON bodies, most of which no route takes.
fn json() -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for field in ["images", "items", "faces", "options", "x"] {
        for value in ["0", "{}", "{\"\":0}", "[[[[0]]]]"] {
            let beginning = format!("{{\"operation\":\"detect\",\"{field}\":[");
            let value = format!("{value},");
            bodies.push(filled(beginning.as_bytes(), value.as_bytes(), b"0]}"));
        }
    }
    for (beginning, middle, end) in [
        ("", "[", ""),
        ("", "{\"a\":", ""),
        ("{\"name\":\"", "x", "\"}"),
        ("{\"name\":\"", "\\u0041", "\"}"),
        ("{\"name\":\"", "\\u0000", "\"}"),
        ("{\"metadata\":[", "0,", "0]}"),
        ("{\"", "k", "\":0}"),
        ("{", "\"\":0,", "\"a\":0}"),
        ("{\"images\":[{\"data\":\"", "AAAA", "\"}]}"),
        ("{\"images\":[{\"data\":\"", "AAA\\n", "\"}]}"),
        ("{\"images\":[{\"data\":\"", "\\/", "\"}]}"),
        (
            "{\"operation\":\"detect\",\"items\":[",
            "{\"data\":\"AAAA\"},",
            "0]}",
        ),
        (
            "{\"operation\":\"detect\",\"items\":[{\"metadata\":[",
            "[],",
            "0]}]}",
        ),
        (
            "{\"operation\":\"detect\",\"items\":[{\"id\":[",
            "[],",
            "0]}]}",
        ),
        (
            "{\"faces\":[{\"contract\":\"a\",\"embedding\":[",
            "0,",
            "0]}]}",
        ),
        ("{\"a\":{\"embedding\":\"", "AAAA", "\"},\"b\":{}}"),
    ] {
        bodies.push(filled(
            beginning.as_bytes(),
            middle.as_bytes(),
            end.as_bytes(),
        ));
    }
    bodies
}

/// A msgpack map with `field`, and a list of as many copies of a value as fit.
fn packed_list(field: &str, value: &[u8]) -> Vec<u8> {
    let name = [&[0xA0 | field.len() as u8], field.as_bytes()].concat();
    let head = [b"\x82\xa9operation\xa6detect".as_slice(), &name].concat();
    let count = (LENGTH - head.len() - 5) / value.len();
    let count = u32::try_from(count).expect("a small list").to_be_bytes();
    filled(&[head, vec![0xDD], count.into()].concat(), value, b"")
}

fn msgpack() -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for field in ["images", "items", "faces", "options", "a", "x"] {
        for value in [
            b"\xC0".as_slice(),
            b"\x90",
            b"\x80",
            b"\xA0",
            b"\x81\xA0\xC0",
            b"\x91\x91\x91\xC0",
        ] {
            bodies.push(packed_list(field, value));
        }
    }
    bodies.push(filled(b"", b"\x91", b""));
    bodies.push(filled(b"", b"\x81\xA1a", b""));
    bodies
}

fn forms() -> Vec<Vec<u8>> {
    let part = |head: &str| format!("--edge\r\n{head}\r\n\r\n\r\n");
    [
        filled(b"", b"\r\n--", b""),
        filled(b"--edge\r\n", b"a: b\r\n", b""),
        filled(b"--edge\r\na: ", b"b", b""),
        filled(b"", b"--edge\r\n\r\n\r\n", b"--edge--"),
        filled(
            b"",
            part("content-disposition: form-data; name=image").as_bytes(),
            b"--edge--",
        ),
        filled(
            b"",
            part("content-disposition: form-data; name=options").as_bytes(),
            b"--edge--",
        ),
        filled(
            b"--edge\r\ncontent-disposition: form-data; name=image\r\n\r\n",
            b"\r\n--edg",
            b"\r\n--edge--",
        ),
        filled(
            b"--edge\r\ncontent-disposition: form-data; name=options\r\n\r\n[",
            b"0,",
            b"0]\r\n--edge--",
        ),
    ]
    .into()
}

fn lines() -> Vec<Vec<u8>> {
    let head = b"{\"operation\":\"detect\"}\n".as_slice();
    [
        filled(head, b"0\n", b""),
        filled(head, b"{}\n", b""),
        filled(head, b"\n", b""),
        filled(&[head, b"{\"metadata\":["].concat(), b"[],", b"0]}\n"),
        filled(b"{\"options\":[", b"0,", b"0]}\n"),
    ]
    .into()
}

/// Returns the content type to send, and bodies of its format.
fn bodies(content_type: &str) -> (&str, Vec<Vec<u8>>) {
    match content_type {
        "application/json" => (content_type, json()),
        "application/msgpack" => (content_type, msgpack()),
        "multipart/form-data" => (EDGE, forms()),
        "application/x-ndjson" => (content_type, lines()),
        // Images have limits of their own.
        _ => (content_type, Vec::new()),
    }
}

fn check(route: &Route, content_type: &str, body: &[u8]) {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let (status, response) = route.send(content_type, Bytes::copy_from_slice(body));
    let taken = MEMORY.peak_usage().saturating_sub(before);
    let shown = String::from_utf8_lossy(&body[..80]);
    assert!(
        status < 500,
        "{response:?} {route:?} {content_type} {shown}"
    );
    assert!(
        taken <= 2 * LENGTH + BESIDE_BODY,
        "{} KiB {route:?} {content_type} {shown}",
        taken >> 10
    );
}

#[test]
fn a_structured_body_takes_at_most_twice_its_length() {
    let routes = routes_with_bodies();
    assert!(routes.len() >= 20, "{} routes", routes.len());
    // The first request starts the server.
    routes[0].send("application/json", Bytes::new());
    for route in &routes {
        for content_type in &route.content_types {
            let (content_type, bodies) = bodies(content_type);
            for body in bodies {
                check(route, content_type, &body);
            }
        }
    }
}
