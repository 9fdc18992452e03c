"""Hooks for schemathesis: sample images, and rules between options, which a JSON Schema cannot state.

Each rule changes a request that the document allows into one that the server accepts. The rules do not change requests that
the document forbids, so they cannot hide that the server accepts such a request.
"""

from __future__ import annotations

import base64
import copy
import json
import struct
import uuid
import zlib
from typing import Any

import schemathesis  # pyright: ignore[reportMissingImports]
from hypothesis import strategies as st  # pyright: ignore[reportMissingImports]
from schemathesis import Case, GenerationMode  # pyright: ignore[reportMissingImports]
from schemathesis.core.parameters import ParameterLocation  # pyright: ignore[reportMissingImports]

SIDE = 112


def png(level: int) -> bytes:
    """Returns a gray gradient of the size of an aligned face."""
    rows = b"".join(b"\0" + bytes((level + 2 * x + y) % 256 for x in range(SIDE)) for y in range(SIDE))

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


IMAGES = [png(level) for level in (0, 90, 180)]

for media_type in ("image/*", "image/png", "application/octet-stream"):
    schemathesis.openapi.media_type(media_type, st.sampled_from(IMAGES))
schemathesis.openapi.format("binary", st.sampled_from(IMAGES))
schemathesis.openapi.format("byte", st.sampled_from([base64.b64encode(image).decode() for image in IMAGES]))


def whole(value: Any, default: int) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return default


def fit_detector(query: dict, options: dict) -> None:
    """`second_det_size` must be 0, or at least 64 and smaller than `det_size`. Each can be in the query or in the body."""
    sent = {**query, **options}
    first, second = whole(sent.get("det_size"), 640), whole(sent.get("second_det_size"), 0)
    if second == 32 or second >= first:
        for place in (query, options):
            if "second_det_size" in place:
                place["second_det_size"] = first - 32 if first > 64 else 0


def fit_kind(path: str, query: dict, options: dict) -> None:
    """Vectors of whole images need a model that is not configured. Detection does not accept aligned crops."""
    for place in (query, options):
        if place.get("kind") == "image":
            place["kind"] = "face"
        if path == "/detect" and place.get("aligned") in (True, "true"):
            place["aligned"] = "false" if isinstance(place["aligned"], str) else False


def fit_float(value: float) -> float:
    return min(max(value, 1e-6), 1e6)


def fit_tensor(query: dict, options: dict) -> None:
    """An answer has at most 256 MiB. A number outside the range of 32-bit floats becomes 0 or infinite."""
    if isinstance(spread := options.get("std"), list):
        options["std"] = [fit_float(value) for value in spread]
    sent = {**query, **options}
    if whole(sent.get("height"), 0) * whole(sent.get("width"), 0) > 1 << 20:
        for place in (query, options):
            for side in ("height", "width"):
                if side in place:
                    place[side] = min(whole(place[side], 64), 1024)


def fit_step(step: dict, masks: bool) -> dict:
    """Returns the operation with fields that are consistent with each other and with the image."""
    step = {name: value for name, value in step.items() if value is not None or name in ("op",)}
    match step.get("op"):
        case "mask_crop" if not masks:
            return {"op": "grayscale"}
        case "mask_crop":
            if "min_size" in step:
                step["min_size"] = [min(side, SIDE) for side in step["min_size"]]
        case "crop":
            step["faces"] = False
            step["box"] = [0, 0, SIDE, SIDE]
        case "resize":
            for side in ("width", "height"):
                if side in step:
                    step[side] = min(step[side], 1024)
            if "width" in step or "height" in step:
                step["bounded"] = False
            else:
                step["bounded"] = True
            if not ("width" in step and "height" in step):
                step.pop("mode", None)
        case "gaussian_blur":
            if "kernel" in step:
                step["kernel"] = int(step["kernel"]) | 1
            if "sigma" in step:
                step["sigma"] = fit_float(step["sigma"])
            if "region" in step:
                step["region"], step["faces"] = [0, 0, SIDE, SIDE], False
    return step


def fit_steps(query: dict, options: dict, masks: bool) -> None:
    """Operations are in the query or in the body. `normalize` must be the last one and changes the format, so it is removed."""
    if isinstance(steps := options.get("operations"), list):
        fitted = [fit_step(step, masks) for step in steps if step.get("op") != "normalize"]
        options["operations"] = fitted or [{"op": "grayscale"}]
        query.pop("operations", None)
    else:
        query["operations"] = json.dumps([{"op": "resize", "width": 64}])


def keep_one_place(case: Case, query: dict, options: dict) -> None:
    """The body wins over the query, so the server would not see an invalid value in the query. Keeps one of the two."""
    of_query = case.meta.components.get(ParameterLocation.QUERY)
    loser = options if of_query and of_query.mode == GenerationMode.NEGATIVE else query
    for name in set(query) & set(options):
        del loser[name]


def fit_faces(query: dict, options: dict) -> None:
    """With a low score a detector finds very many faces, and a debug server needs minutes to embed them."""
    for place in (query, options):
        if "max_faces" in place:
            place["max_faces"] = 1
    if not {**query, **options}.get("max_faces"):
        query["max_faces"] = 1


def fit_batch(case: Case, query: dict, body: dict) -> None:
    """A body that names the operation wins over the query. The options are those of the operation. A webhook needs an address
    that the guard allows. A search needs a collection that exists, which a hook does not know.
    """
    if "operation" in body:
        query.pop("operation", None)
    if case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    if case.headers and "idempotency-key" in case.headers:
        case.headers["idempotency-key"] = "key"
    if body.get("operation") == "search":
        body["operation"] = "detect"
    if "operation" in body:
        body["options"] = {"operations": [{"op": "grayscale"}]} if body["operation"] == "process" else {}
    elif case.path == "/batches" and query.get("operation", "process") in ("process", "search"):
        # The image alone names no operation.
        query["operation"] = "detect"
        case.query = query
    for webhook in [body] if case.path == "/webhooks" else [body.get("webhook")]:
        if isinstance(webhook, dict):
            webhook["url"] = "https://example.com/told"
            webhook.pop("secret", None)


def fit_erasure(body: dict) -> None:
    """A host must be one. A whole tenant is not erased, because the other cases need what it has stored."""
    if "host" in body:
        body["host"] = "img.example.com"
    if "tenant" in body:
        del body["tenant"]
        body["source"] = "example"
    if "source" in body:
        body["source"] = body["source"].replace("\0", "")[:128] or "example"


def fit_people(case: Case, query: dict, body: dict) -> None:
    """Texts must be readable and names unique. The settings list the purposes, and the calibration covers only some rates."""
    if case.path.endswith(("/search", "/searches", "/faces")):
        fit_named_faces(case, query, body)
    elif "/subjects" in case.path:
        fixed = {
            "external_id": str(uuid.uuid4()),
            "metadata": {"floor": 3},
            "consent": {"reference": "form 1", "given_at": "2020-01-01T00:00:00Z", "expires_at": "2999-01-01T00:00:00Z"},
        }
        body |= {name: value for name, value in fixed.items() if body.get(name) is not None}
    else:
        fixed = {"name": f"example {uuid.uuid4()}", "purpose": "example", "legal_basis": "example", "retention_days": 30}
        # Null removes the name of a person.
        body |= {name: value for name, value in fixed.items() if body.get(name) is not None}
        body.pop("far", None)
        if body.get("kind") == "library":
            # Its faces have no subjects who could consent.
            body.pop("consent_required", None)


def fit_named_faces(case: Case, query: dict, body: dict) -> None:
    """The images are aligned crops. Vectors need a contract, and a threshold, because no table covers every rate."""
    options = body.get("options")
    options = options if isinstance(options, dict) else {}
    for name in ("far", "threshold", "aligned", "purpose", "case"):
        options.pop(name, None)
        query.pop(name, None)
    query["aligned"] = "true"
    if case.path.endswith(("/search", "/searches")):
        query["purpose"] = "example"
    faces = body.get("faces")
    faces = faces if isinstance(faces, list) else []
    for index, face in enumerate(faces):
        if "embedding" in face:
            faces[index] = {"embedding": [1.0, 0.5], "contract": "example"}
    case.query = query


def fit_pair(query: dict, options: dict, body: dict) -> None:
    """The images are aligned crops. Vectors need a contract in common, and a threshold, because no table covers every rate."""
    for name in ("far", "threshold", "aligned"):
        options.pop(name, None)
        query.pop(name, None)
    query |= {"threshold": 0.5, "aligned": "true"}
    # The faces of a form are bytes.
    if any(isinstance(face := body.get(side), dict) and "embedding" in face for side in ("a", "b")):
        body |= {side: {"embedding": [1.0, 0.5], "contract": "example"} for side in ("a", "b")}


def fit(case: Case, query: dict, body: dict) -> None:
    """Applies the rules of the route."""
    if case.path == "/keys":
        if case.meta.generation.mode == GenerationMode.POSITIVE and "expires_at" in body:
            # The time must be in the future.
            body["expires_at"] = "2999-01-01T00:00:00Z"
        return
    if case.path == "/erasures":
        if case.meta.generation.mode == GenerationMode.POSITIVE:
            fit_erasure(body)
        return
    if case.path.startswith("/collections"):
        options = body.get("options")
        keep_one_place(case, query, options if isinstance(options, dict) else {})
        if case.meta.generation.mode == GenerationMode.POSITIVE:
            fit_people(case, query, body)
        return
    if case.path in ("/batches", "/webhooks") or case.path.startswith("/batches/"):
        fit_batch(case, query, body)
        return
    options = body.get("options")
    options = options if isinstance(options, dict) else {}
    keep_one_place(case, query, options)
    if case.meta.generation.mode != GenerationMode.POSITIVE:
        return
    if case.path == "/verify":
        fit_pair(query, options, body)
        case.query = query
        return
    for entry in [*(body.get("images") or []), *(body.get("masks") or [])]:
        for name in ("source", "source_url"):
            if isinstance(entry.get(name), str):
                entry[name] = entry[name].replace("\0", "")[:128]
    if "scan" in (case.operation.tags or []):
        fit_kind(case.path, query, options)
        fit_faces(query, options)
    if case.path == "/preprocess":
        fit_tensor(query, options)
    else:
        fit_detector(query, options)
    if case.path == "/process":
        fit_steps(query, options, bool(body.get("masks") or body.get("mask")))
        # With a low score the detector still finds faces after `anonymize`, which is a separate error.
        options.pop("min_score", None)
        query["min_score"] = 0.9


@schemathesis.hook
def filter_case(context: Any, case: Case) -> bool:
    """A generated form cannot be changed, so a form that the rules would change is skipped."""
    if case.media_type != "multipart/form-data" or case.meta is None or not isinstance(case.body, dict):
        return True
    if "webhook" in case.body or case.body.get("operation") in ("process", "search"):
        return False
    if case.path == "/verify" and case.meta.generation.mode == GenerationMode.POSITIVE:
        # Each face is an image or an id, which a JSON Schema of a form cannot state.
        return all((side in case.body) != (f"{side}_face_id" in case.body) for side in ("a", "b"))
    if case.path.startswith("/collections") and case.meta.generation.mode == GenerationMode.POSITIVE:
        # A form needs a face, and a search has only one. A generated part `options` cannot be changed.
        faces = [name for name in ("image", "face_id") if name in case.body]
        return "options" not in case.body and len(faces) == 1
    if case.path.startswith("/batches"):
        # The other parts must stand before the images, and schemathesis sends them behind.
        return not set(case.body) - {"image"}
    before = case.body.get("options")
    after = copy.deepcopy({name: value for name, value in case.body.items() if name == "options"})
    fit(case, dict(case.query or {}), after)
    return after.get("options") == before and not (case.path == "/process" and not before)


@schemathesis.hook
def before_call(context: Any, case: Case, kwargs: Any) -> None:
    if case.method.upper() not in ("PATCH", "POST") or case.meta is None:
        return
    is_form = case.media_type == "multipart/form-data"
    body = case.body if isinstance(case.body, dict) else {}
    fit(case, case.query if isinstance(case.query, dict) else {}, copy.deepcopy(body) if is_form else body)
