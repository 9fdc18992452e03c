//! Bodies of requests, settings, registries and URLs.

use std::io::Result;

use serde_json::{Value, json};

use super::Folder;

/// A GIF of one pixel in base64.
const IMAGE: &str = "R0lGODdhAQABAIAAAAAAAP///ywAAAAAAQABAAACAkQBADs=";

pub fn write(folder: &Folder) -> Result<()> {
    json_bodies(folder)?;
    msgpack_bodies(folder)?;
    forms(folder)?;
    lines(folder)?;
    settings(folder)?;
    urls(folder)
}

/// Bodies that are valid, and that mean the same in msgpack.
fn trees() -> [(&'static str, Value); 4] {
    [
        (
            "scan",
            json!({"images": [{"id": "a", "data": IMAGE, "source": "s"}, {"url": "https://example.org/a.jpg"}, {}],
                   "options": {"min_score": 0.5, "max_faces": 1, "priority": "bulk"}}),
        ),
        (
            "process",
            json!({"images": [{"data": format!("data:image/gif;base64,{IMAGE}")}], "masks": [{"data": IMAGE}],
                   "options": {"operations": [{"op": "rotate", "degrees": 90}, {"op": "crop", "x": 0, "y": 0, "width": 1, "height": 1}]}}),
        ),
        (
            "batch",
            json!({"operation": "detect", "options": {"max_faces": 1}, "name": "n", "priority": "interactive", "open": true,
                   "webhook": {"url": "https://example.org/hook", "secret": "whsec_AAAA"},
                   "items": [{"id": "a", "data": IMAGE, "metadata": {"page": [1, 2.5, null]}}, {"url": "https://example.org/a.jpg", "source_url": "x"}, 7, {"data": 7}]}),
        ),
        (
            "options",
            json!({"images": [{"data": ""}], "options": {"a": [{"b": [1, [2]]}, 3], "source": "\u{e9}\0"}}),
        ),
    ]
}

fn json_bodies(folder: &Folder) -> Result<()> {
    let write = |name: &str, content: String| folder.write("json_body", name, content);
    for (name, tree) in trees() {
        write(name, tree.to_string())?;
    }
    write(
        "deep",
        format!(
            "{{\"images\":[{{}}],\"options\":{{\"a\":{}",
            "[".repeat(4000)
        ),
    )?;
    write(
        "deep-item",
        format!(
            "{{\"items\":[{{\"metadata\":{}{}}}]}}",
            "[".repeat(110),
            "]".repeat(110)
        ),
    )?;
    write(
        "twice",
        "{\"images\":[{\"id\":\"a\",\"id\":\"b\"}],\"images\":[]}".to_owned(),
    )?;
    write(
        "many",
        format!("{{\"images\":[{}{{}}]}}", "{},".repeat(4200)),
    )?;
    write("numbers", "{\"images\":[{}],\"options\":{\"a\":1e400,\"b\":-0.0,\"c\":9007199254740993,\"d\":1e-400}}".to_owned())
}

fn msgpack_bodies(folder: &Folder) -> Result<()> {
    let write = |name: &str, content: Vec<u8>| folder.write("msgpack_body", name, content);
    for (name, tree) in trees() {
        let packed = rmp_serde::to_vec_named(&tree);
        write(name, packed.expect("a tree can be packed"))?;
    }
    // A list, a text and a binary that state 4 GiB, and a map that states 2^32 fields.
    let images = b"\x81\xA6images";
    for (name, claim) in [
        ("claims-list", &b"\xDD\xFF\xFF\xFF\xFF"[..]),
        ("claims-binary", b"\x91\x81\xA4data\xC6\xFF\xFF\xFF\xFF"),
        ("claims-text", b"\x91\x81\xA2id\xDB\xFF\xFF\xFF\xFF"),
        ("claims-map", b"\x91\xDF\xFF\xFF\xFF\xFF"),
        ("binary", b"\x91\x81\xA4data\xC4\x03GIF"),
        ("extension", b"\x91\x81\xA4data\xC7\x01\x05\x00"),
    ] {
        write(name, [images, claim].concat())?;
    }
    let items = b"\x82\xA9operation\xA6detect\xA5items\x91\x81\xA8metadata";
    write("deep-item", [&items[..], &[0x91; 110], &[0xC0]].concat())?;
    write("deeper-item", [&items[..], &[0x91; 1000], &[0xC0]].concat())?;
    write(
        "deep-unknown",
        [&b"\x81\xA1x"[..], &[0x91; 4000], &[0xC0]].concat(),
    )?;
    write(
        "not-a-number",
        b"\x82\xA6images\x91\x80\xA7options\x81\xA9min_score\xCB\x7F\xF8\0\0\0\0\0\0".to_vec(),
    )
}

fn forms(folder: &Folder) -> Result<()> {
    let write = |name: &str, content: String| folder.write("multipart", name, content);
    let part = |head: &str, content: &str| {
        format!("--edge\r\ncontent-disposition: form-data; {head}\r\n\r\n{content}\r\n")
    };
    let image = part("name=\"image\"; filename=\"a.gif\"", "GIF87a");
    let mask = part("name=mask", "GIF87a");
    let options = part("name=\"options\"", "{\"max_faces\":1,\"min_score\":0.5}");
    let option = part("name=\"det_size\"", "320");
    let operation = part("name=\"operation\"", "detect");
    write(
        "scan",
        format!("{option}{options}{image}{image}--edge--\r\n"),
    )?;
    write(
        "process",
        format!(
            "{image}{mask}{}--edge--",
            part(
                "name=\"operations\"",
                "[{\"op\":\"flip\",\"axis\":\"horizontal\"}]"
            )
        ),
    )?;
    write(
        "batch",
        format!(
            "{operation}{options}{}{image}{image}--edge--",
            part("name=\"open\"", "true")
        ),
    )?;
    write("late-option", format!("{operation}{image}{option}--edge--"))?;
    write(
        "no-end",
        format!("{image}--edge\r\ncontent-disposition: form-data; name=\"image\"\r\n\r\nGIF"),
    )?;
    write(
        "no-name",
        "--edge\r\ncontent-disposition: form-data\r\n\r\nx\r\n--edge--".to_owned(),
    )?;
    write(
        "bad-header",
        "--edge\r\ncontent-disposition: form-data; name=\"\\\";;=\r\nx:\0\r\n\r\n--edge--"
            .to_owned(),
    )?;
    write(
        "many-parts",
        format!(
            "{}--edge--",
            "--edge\r\ncontent-disposition: form-data; name=image\r\n\r\n\r\n".repeat(120)
        ),
    )?;
    write("empty", "--edge--".to_owned())
}

/// Lines with each fault that refuses only its own line.
fn lines(folder: &Folder) -> Result<()> {
    let write = |name: &str, content: String| folder.write("ndjson", name, content);
    let head = "{\"operation\":\"detect\",\"options\":{\"max_faces\":1}}\n";
    let good = format!("{{\"id\":\"a\",\"data\":\"{IMAGE}\",\"metadata\":{{\"page\":1}}}}\n");
    let faults = [
        "7",
        "[1]",
        "null",
        "\"text\"",
        "{",
        "{}",
        "{\"data\":7}",
        "{\"data\":\"!\"}",
        "{\"data\":\"data:,x\"}",
        "{\"id\":[]}",
        "{\"dta\":\"x\"}",
        "{\"data\":\"\",\"url\":\"x\"}",
        "{\"url\":\"http://127.0.0.1/\"}",
        "{\"id\":\"\\u0000\",\"data\":\"\"}",
        "{\"data\":\"AA==\"} trailing",
        "\u{feff}{}",
        "{\"id\":\"a\",\"id\":\"b\",\"data\":\"\"}",
    ];
    write("batch", format!("{head}{good}\n \r\n{good}"))?;
    write("faults", format!("{head}{}\n", faults.join("\n")))?;
    write("no-head", faults.join("\r\n"))?;
    write("no-line-feed", good.trim_end().to_owned())?;
    write(
        "deep",
        format!("{{\"metadata\":{}\n{good}", "[".repeat(500)),
    )?;
    write("blank", "\n\n \t\r\n\n".to_owned())
}

fn settings(folder: &Folder) -> Result<()> {
    let write = |name: &str, content: &str| folder.write("config", name, content);
    write("defaults", include_str!("../../../../configs/config.yaml"))?;
    write(
        "file",
        "server:\n  port: 9000\nlog:\n  level: debug\nurls:\n  enabled: true\n  hosts: ['*.example.com', 10.0.0.8]\n%%\nDEBUG=true\n%%\n",
    )?;
    write(
        "variables",
        "\n%%\nFACESCAN__DETECTION__MIN_SCORE=0.5\n%%\nDATABASE_URL=postgres://ann:pass-word-1@db/faces?sslmode=require\nFACESCAN__PREPROCESS__MEAN=[0.5, 0.5, 0.5]\nFACESCAN__SERVER__PORT=0x10\n",
    )?;
    write(
        "conflict",
        "\n%%\n\n%%\nDATABASE_URL=postgres://a:one-secret@h/d\nFACESCAN__DATABASE__URL=postgres://a:two-secret@h/d\nFACESCAN__BATCHES__QUEUE=nats://u:three-secret@q:4222\n",
    )?;
    write(
        "bombs",
        "a: &a [x, x, x, x]\nb: &b [*a, *a, *a, *a]\nc: &c [*b, *b, *b, *b]\nserver: *c\n%%\nA='\n",
    )?;
    write(
        "keys",
        "access:\n  keys:\n    - id: 0123456789abcdef\n      sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n      tenant: t\n      scopes: [infer]\n      expires_at: 2030-01-01T00:00:00Z\n%%\n\n%%\n",
    )?;
    write(
        "wrong",
        "server: 7\ndetection: {min_score: .nan, det_size: 65}\nunknown: [\n  ]\n%%\n\n%%\nFACESCAN__NOTHING=1\nPORT=x\n",
    )?;
    let registry = include_str!("../../../../configs/models.yaml");
    folder.write("registry", "built-in", registry)?;
    let encoder = "models:\n  - id: e\n    role: encoder\n    family: image\n    sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\n    licence: x\n    commercial_use: false\n    source: x\n    dim: 4\n    output: o\n    pooling: mean\n    batch: 8\n    input: {width: 8, height: 8, channel_order: bgr, mean: [1, 2, 3], scale: [1e-38, 1, -1], layout: NHWC, profile: pil, mode: stretch, pad: [1, 2, 3]}\n    remote: {url: 'http://a/', model: m}\n";
    folder.write("registry", "encoder", encoder)?;
    folder.write("registry", "not-a-list", "models: {}\nother: 1\n")
}

fn urls(folder: &Folder) -> Result<()> {
    for (name, text) in [
        ("name", "https://a.example.com:8443/a.jpg?b#c"),
        ("credentials", "https://user:secret@example.com/"),
        ("octal", "http://0177.0.0.1/"),
        ("number", "https://2130706433/"),
        ("short", "https://0x7f.1/"),
        ("full-width", "https://\u{ff11}\u{ff12}\u{ff17}.0.0.1/"),
        (
            "mapped",
            "https://[::ffff:169.254.169.254]/latest/meta-data",
        ),
        ("nat64", "https://[64:ff9b::10.0.0.1]/"),
        ("dot", "https://127.0.0.1./"),
        ("international", "https://b\u{fc}cher.example/"),
        ("file", "file:///etc/passwd"),
        ("data", "data:image/png;base64,AAAA"),
        ("backslash", "https:\\\\10.0.0.8\\a@b"),
        ("pattern", "*.example.com"),
        ("pattern-address", "[2001:db8::1]"),
    ] {
        folder.write("url_guard", name, text)?;
    }
    folder.write(
        "url_guard",
        "six-to-four",
        b"\x20\x02\x7F\0\0\x01\0\0\0\0\0\0\x0A\0\0\x08",
    )
}
