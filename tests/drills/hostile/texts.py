"""Texts with NUL and other odd characters in every parameter and every field of the OpenAPI document."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from urllib.parse import quote

from .attack import Attack, Report
from .bodies import PLAUSIBLE, existing, fields, filled, resolved
from .shapes import pack
from .target import JSON, MSGPACK, NDJSON, PHOTO, Response, Target

NUL, ODD = "a\0b", ["a\0b", "\0", "a\u2028\x1b[31m\ufeff", "\ud83d\ude00" * 40, "'; drop table images --", "../../../etc/passwd"]
DATA = base64.b64encode(PHOTO).decode()


def texts(document: dict, schema: dict) -> Iterator[str]:
    """Returns the fields of a body that can be a text."""
    schema = resolved(document, schema)
    for name, named in schema.get("properties", {}).items():
        field = resolved(document, named)
        if "string" in field.get("type", []) and "enum" not in field:
            yield name


def judged(report: Report, what: str, response: Response) -> None:
    """A text that is refused has a stable code, and none ends the request with 5xx."""
    report.saw(response)
    report.expect(0 < response.status < 500, f"{what}: {response.status} {response.code}")


def parameters(target: Target, report: Report) -> None:
    """NUL in each parameter of a path, a query and a header."""
    target.run()
    document, ids = target.alice.get("/openapi.json").json(), existing(target)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "header":
                    continue
                for text in ODD:
                    value = quote(text.encode("utf-8", "surrogatepass"), safe="")
                    named = path.replace("{" + parameter["name"] + "}", value) if parameter["in"] == "path" else path
                    query = "" if parameter["in"] == "path" else f"?{parameter['name']}={value}"
                    body = PHOTO if "image/*" in operation.get("requestBody", {}).get("content", {}) else b"{}"
                    kind = "image/jpeg" if body is PHOTO else JSON
                    if path.endswith(("/events", "/livez")):
                        continue
                    response = target.alice.request(
                        method.upper(), filled(named, ids) + query, None if method in ("get", "delete") else body, kind
                    )
                    judged(report, f"{method} {path} {parameter['name']}={text!r}", response)


def in_bodies(target: Target, report: Report) -> None:
    """NUL in each text of each JSON body."""
    target.run()
    document, ids = target.alice.get("/openapi.json").json(), existing(target)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get(JSON)
            if not content:
                continue
            _, needed = fields(document, content["schema"])
            required = {name: PLAUSIBLE[name] for name in needed if name in PLAUSIBLE} | (
                {"scopes": ["read"]} if "scopes" in needed else {}
            )
            for name in texts(document, content["schema"]):
                for text in ODD:
                    response = target.alice.request(method.upper(), filled(path, ids), required | {name: text}, JSON)
                    judged(report, f"{method} {path} {name}={text!r}", response)
                    if text == NUL and name not in ("image", "batch", "collection", "subject", "person"):
                        report.expect(
                            response.status in (400, 404, 422), f"{method} {path}: {name} with NUL was accepted with {response.status}"
                        )


def deep(target: Target, report: Report) -> None:
    """NUL where the document names no text: metadata, sources, items, purposes and names of files."""
    target.run()
    ids = existing(target)
    gallery, subject = ids["/collections"], ids["{subject}"]
    image = {"data": DATA}
    for what, path, body in [
        ("metadata of a subject", f"/collections/{gallery}/subjects", {"metadata": {NUL: NUL}}),
        ("consent", f"/collections/{gallery}/subjects", {"consent": {"reference": NUL, "given_at": "2026-01-01T00:00:00Z"}}),
        ("source of an image", "/detect", {"images": [image | {"source": NUL}]}),
        ("address of an image", "/embed", {"images": [image | {"source_url": f"https://example.com/{NUL}"}]}),
        ("id of an image", "/quality", {"images": [image | {"id": NUL}]}),
        ("case of a search", f"/collections/{gallery}/search", {"faces": [image], "options": {"purpose": "drill", "case": NUL}}),
        ("purpose of a search", f"/collections/{gallery}/searches", {"faces": [image], "options": {"purpose": NUL}}),
        (
            "webhook of a batch",
            "/batches",
            {"operation": "detect", "open": True, "items": [], "webhook": {"url": f"https://example.com/{NUL}"}},
        ),
        ("options of a batch", "/batches", {"operation": "detect", "open": True, "items": [], "options": {"source": NUL}}),
        (
            "vector_space of a vector",
            f"/collections/{gallery}/subjects/{subject}/enrollments",
            {"faces": [{"embedding": [1.0] * 128, "vector_space": NUL}]},
        ),
    ]:
        judged(report, what, target.alice.post(path, body))
    judged(
        report,
        "idempotency key",
        target.alice.post("/batches", {"operation": "detect", "open": True, "items": []}, idempotency_key="a\x01b"),
    )
    form = b'--b\r\ncontent-disposition: form-data; name="image"; filename="a\0b"\r\n\r\n' + PHOTO + b"\r\n--b--\r\n"
    judged(report, "name of a file", target.alice.post("/detect", form, "multipart/form-data; boundary=b"))


def items(target: Target, report: Report) -> None:
    """One item with NUL is one refused item; the others of its body stay."""
    target.run()
    good, bad = {"id": "good", "data": DATA}, {"id": NUL, "data": DATA}
    for field in ("id", "source", "source_url", "metadata"):
        entry = bad | {"id": "bad"} | {field: {"page": NUL} if field == "metadata" else NUL}
        lines = "\n".join(map(json.dumps, ({"operation": "detect", "open": True}, good, entry))).encode()
        raw = {"id": "good", "data": b"\xc4\x01x"}
        for kind, body in (
            (NDJSON, lines),
            (JSON, {"operation": "detect", "open": True, "items": [good, entry]}),
            (MSGPACK, pack({"operation": "detect", "open": True, "items": [raw, raw | {"id": "bad"} | {field: entry[field]}]})),
        ):
            response = report.saw(target.alice.post("/batches", body, kind))
            receipt = response.json() or {}
            report.expect(response.status < 300, f"{field} with NUL, {kind}: {response.status} {response.code}")
            report.expect(receipt.get("accepted") in (1, 2), f"{field} with NUL, {kind}: {receipt.get('accepted')} accepted")
            if field in ("id", "source"):
                report.expect(receipt.get("refused_total") == 1, f"{field} with NUL, {kind}: {receipt.get('refused_total')} refused")


def commands(target: Target, report: Report) -> None:
    """Names that the command line takes."""
    for arguments in (
        ["keys", "create", "--name", "a\x01b\x1b[31m", "--scopes", "read"],
        ["keys", "create", "--name", "a", "--tenant", "../x", "--scopes", "read"],
        ["keys", "revoke", "x' or '1'='1"],
        ["keys", "create", "--name", "a", "--scopes", "read", "--expires-in-days", "4294967295"],
    ):
        done = target.command(*arguments)
        report.outcomes[f"exit {done.returncode}"] += 1
        report.expect(
            done.returncode in (0, 1, 2) and "panicked" not in done.stderr,
            f"{' '.join(arguments)!r} ends with {done.returncode}: {done.stderr[:80]!r}",
        )


ATTACKS = [
    Attack("texts: each parameter", parameters, watched=False),
    Attack("texts: each field of each body", in_bodies, watched=False),
    Attack("texts: where no schema names them", deep, watched=False),
    Attack("texts: an item with NUL beside a good one", items, watched=False),
    Attack("texts: arguments of commands", commands, watched=False),
]
