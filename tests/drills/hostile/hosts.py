"""A keyless server behind proxies and pages, and hosts in other spellings."""

from __future__ import annotations

import base64

from .attack import Attack, Report
from .target import PHOTO, Target

KEYLESS: dict[str, object] = {"access__mode": "auto"}
# What a proxy or a page of another site adds. A bare `proxy_pass` adds nothing, which docs/security.md states.
FORWARDED = [
    "Via: 1.1 faces.example.com",
    "Forwarded: for=203.0.113.9;host=faces.example.com",
    "X-Forwarded-For: 203.0.113.9",
    "X-Forwarded-Host: faces.example.com",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Server: proxy",
    "X-Forwarded-Port: 443",
    "x-FORWARDED-for: 127.0.0.1",
    "Forwarded: for=127.0.0.1",
    "X-Real-IP: 203.0.113.9",
    "Sec-Fetch-Site: cross-site",
    "Sec-Fetch-Site: same-site",
    "Origin: https://example.com",
    "Origin: null",
]
HOSTS = [
    "faces.example.com",
    "127.0.0.1.example.com",
    "localhost.example.com",
    "example.com:8080",
    "0x7f.1.example.com",
    "[2001:db8::1]",
    "",
]
ROUTES = [
    ("GET", "/images", b""),
    ("POST", "/detect?store=false", PHOTO),
    ("DELETE", "/images/0198f2c2-7d3e-7c41-9d3e-0a1b2c3d4e5f", b""),
    ("POST", "/erasures", b'{"tenant":"default"}'),
    ("POST", "/batches", b'{"operation":"detect","items":[]}'),
    ("GET", "/metrics", b""),
    ("POST", "/collections", b"{}"),
]


def status(target: Target, method: str, path: str, body: bytes, host: str, *fields: str, version: str = "1.1") -> int:
    lines = [
        f"{method} {path} HTTP/{version}",
        f"host: {host}",
        "connection: close",
        f"content-length: {len(body)}",
        "content-type: application/json",
        *fields,
    ]
    with target.connect() as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode() + body)
        try:
            first = connection.recv(100)
        except OSError:
            first = b""
    return int(first[9:12] or 0)


def proxies(target: Target, report: Report) -> None:
    """Each header of a proxy at each kind of route."""
    target.run()
    host = f"127.0.0.1:{target.port}"
    report.expect(status(target, "GET", "/images", b"", host) == 200, "a local request was refused")
    for field in FORWARDED:
        for method, path, body in ROUTES:
            for version in ("1.0", "1.1"):
                seen = status(target, method, path, body, host, field, version=version)
                report.outcomes[str(seen)] += 1
                report.expect(seen == 403, f"{method} {path} with `{field}`, HTTP/{version}: {seen}")


def foreign_hosts(target: Target, report: Report) -> None:
    """Names of other hosts, also such that begin like this one."""
    target.run()
    for host in HOSTS:
        for method, path, body in ROUTES:
            seen = status(target, method, path, body, host)
            report.outcomes[str(seen)] += 1
            report.expect(seen in (400, 403), f"{method} {path} for host `{host}`: {seen}")


def warned(target: Target, report: Report) -> None:
    """The start of a keyless server says what a proxy in front of it would do."""
    target.environment["LOG_LEVEL"] = "info"
    target.run()
    report.expect("proxy" in target.log(), "the log of the start has no word of a proxy")


SPELLINGS = [
    "https://example.org/a",
    "https://example.org./c",
    "HTTPS://EXAMPLE.ORG:443/d",
    "https://user@example.org/e",
    "//example.org/g",
    "example.org/h",
    "https://example.org:8443/i",
    "https://www.example.org@example.org/j",
    "https://ex%61mple.org/k",
    " https://example.org/l",
    "https:\\\\example.org\\m",
    "http://example.org?n",
    "https://EXAMPLE.org../o",
    "example.org",
]
NUMBERS = [
    "http://127.0.0.1/a",
    "http://127.1/b",
    "http://0x7f000001/c",
    "http://2130706433/d",
    "http://0177.0.0.1/e",
    "http://127.0.0.1:8080/f",
]
NAMES = ["https://bücher.example/a", "https://xn--bcher-kva.example/b", "https://BÜCHER.example/c", "https://bu%CC%88cher.example/d"]


def erased(host: str, addresses: list[str], report: Report, target: Target) -> None:
    left = {}
    for number, address in enumerate(addresses):
        response = target.alice.post("/detect", {"images": [{"source_url": address, "data": copy(number)}], "options": {"det_size": 64}})
        results = (response.json() or {}).get("results") or [{}]
        if "image_id" in results[0]:
            left[address] = results[0]["image_id"]
        else:
            report.outcomes["refused address"] += 1
    target.alice.made("/erasures", {"host": host})
    for address, image in left.items():
        seen = target.alice.get(f"/images/{image}").status
        report.outcomes["erased" if seen == 404 else "left"] += 1
        report.expect(seen == 404, f"{address!r} stays after the erasure of {host}")


def copy(number: int) -> str:
    return base64.b64encode(PHOTO + bytes(number)).decode()


def spellings(target: Target, report: Report) -> None:
    """Spellings of one host, which an erasure of the host has to cover."""
    target.run()
    for host, addresses in (("example.org", SPELLINGS), ("127.0.0.1", NUMBERS), ("xn--bcher-kva.example", NAMES)):
        erased(host, addresses, report, target)


ATTACKS = [
    Attack("hosts: headers of proxies and pages", proxies, watched=False, settings=KEYLESS, databases=("sqlite",)),
    Attack("hosts: names of other hosts", foreign_hosts, watched=False, settings=KEYLESS, databases=("sqlite",)),
    Attack("hosts: a warning at the start", warned, watched=False, settings=KEYLESS, databases=("sqlite",)),
    Attack("hosts: spellings of an erased host", spellings, watched=False),
]
