"""Passwords in logs and in what commands print, at every level."""

from __future__ import annotations

import re
import time
from urllib.parse import quote

from ..installation import ROOT
from .attack import Attack, Report
from .target import PHOTO, Target, Tenant

SECRET = "Sup3rS3cretPw"
NOWHERE = "127.0.0.1:1"
PLACES: dict[str, str] = {
    "batches__queue": f"nats://u:{SECRET}@{NOWHERE}",
    "batches__payloads": f"s3://u:{SECRET}@bucket/prefix",
    "traces__endpoint": f"http://u:{SECRET}@{NOWHERE}/v1/traces",
    "traces__authorization": f"Bearer {SECRET}",
    "qdrant__api_key": SECRET,
    "qdrant__url": f"http://u:{SECRET}@{NOWHERE}",
    "openid__issuer": f"http://u:{SECRET}@{NOWHERE}/",
    "openid__jwks_url": f"http://u:{SECRET}@{NOWHERE}/keys",
    "batches__queue_token": SECRET,
    "audit__secret": f"{SECRET}-{'0' * 32}",
    "audit__heads": f"http://u:{SECRET}@{NOWHERE}/heads",
}
# Another attack has the database.
ELSEWHERE = {"database__url"}


def secret_settings() -> set[str]:
    """Returns the settings that configs/config.yaml calls secret."""
    section, comment, found = "", "", set()
    for line in (ROOT / "configs/config.yaml").read_text().splitlines():
        setting = re.match(r"( *)(\w+):", line)
        comment = comment + line if line.lstrip().startswith("#") else comment
        if setting:
            section = section if setting[1] else setting[2]
            found |= {f"{section}__{setting[2]}"} if "Secret." in comment else set()
        if setting or not line:
            comment = ""
    return found


def shown(report: Report, what: str, text: str) -> None:
    lines = [line for line in text.splitlines() if SECRET in line]
    report.outcomes["shown" if lines else "hidden"] += 1
    report.expect(not lines, f"{what}: the secret is in {len(lines)} lines, such as {lines[0][:100] if lines else ''}")


def settings(target: Target, report: Report) -> None:
    """The log of a server, and `config`, with a secret in each setting that has one."""
    assert target.alice and target.bob
    missing = secret_settings() - set(PLACES) - ELSEWHERE
    report.expect(not missing, f"this attack has no value for {', '.join(sorted(missing))}")
    for name, value in PLACES.items():
        variables = {f"FACESCAN__{name.upper()}": value} | ({"FACESCAN__OPENID__AUDIENCE": "a"} if name == "openid__jwks_url" else {})
        variables |= {"FACESCAN__OPENID__AUDIENCE": "a"} if name == "openid__issuer" else {}
        printed = target.command("config", **variables)
        shown(report, f"`config` with {name}", printed.stdout + printed.stderr)
        (target.folder / "log").write_text("")
        process = target.start("serve", **variables, LOG_LEVEL="trace")
        end = time.monotonic() + 4
        while time.monotonic() < end and process.poll() is None:
            target.alice.detect(timeout=2)
            time.sleep(0.3)
        target.kill(process)
        shown(report, f"the log with {name}", target.log())
        report.expect(len(target.log()) > 500, f"nothing was logged with {name}")


def database(target: Target, report: Report) -> None:
    """The password of the database, when the database is there, refuses it and is away."""
    assert target.database
    for what, url in (("away", f"postgres://u:{SECRET}@{NOWHERE}/x"), ("that refuses it", swapped(target.database.url))):
        for command in (["migrate"], ["config"], ["keys", "list"], ["audit", "verify"]):
            done = target.command(*command, DATABASE_URL=url, LOG_LEVEL="trace")
            shown(report, f"`{' '.join(command)}` with a database {what}", done.stdout + done.stderr)


def swapped(url: str) -> str:
    """Returns the URL with the secret as its password."""
    head, _, rest = url.partition("://")
    user, _, place = rest.partition("@")
    return f"{head}://{user.partition(':')[0]}:{SECRET}@{place}"


def requests(target: Target, report: Report) -> None:
    """Keys, bodies and queries of callers in a log at level trace."""
    target.environment |= {"LOG_LEVEL": "trace", "FACESCAN__URLS__ENABLED": "true"}
    target.run()
    caller = Tenant(target.port, f"fsk_0123456789abcdef_{SECRET}")
    caller.get("/images")
    target.stranger.get("/images", x_api_key=f"fsk_0123456789abcdef_{SECRET}")
    target.alice.detect(PHOTO, f"source={SECRET}&store=false")
    target.alice.post("/detect", {"images": [{"url": f"https://u:{SECRET}@example.com/{SECRET}"}], "options": {"store": False}})
    target.alice.post("/webhooks", {"url": "https://example.com/", "secret": f"whsec_{SECRET}"})
    target.alice.get(f"/images?source={quote(SECRET)}")
    time.sleep(0.5)
    shown(report, "the log of requests", target.log())
    report.expect(str(target.alice.key) not in target.log(), "the log has a key")
    report.expect(len(target.log()) > 500, "nothing was logged")


ATTACKS = [
    Attack("logs: secrets of settings", settings, watched=False, databases=("sqlite",)),
    Attack("logs: the password of the database", database, watched=False, databases=("postgres",)),
    Attack("logs: secrets of requests", requests, watched=False),
]
