"""What is proved of the running containers."""

from __future__ import annotations

import re
import time

from drills.installation import check, image, verify, wait

from .engine import Engine
from .stack import PICTURE, Clients, Stack

ITEMS = 300
STOPS = 5
# The message of the engine on a machine without the NVIDIA Container Toolkit. docs/gpu.md has it.
NO_DRIVER = 'could not select device driver "nvidia" with capabilities: [[gpu]]'


def check_rights(stack: Stack) -> None:
    """Checks the user, the capabilities and the root file system of the server's container."""
    container = stack.container(stack.server)
    health = stack.engine.inspect(container, "{{.State.Health.Status}}")
    check("the container is healthy", health == "healthy", health)
    status = dict(re.findall(r"^(\w+):\s+(.*)$", stack.within("cat", "/proc/1/status"), re.MULTILINE))
    ids = f"user {status['Uid'].split()}, group {status['Gid'].split()}"
    check("the user is 10001", set((status["Uid"] + " " + status["Gid"]).split()) == {"10001"}, ids)
    rights = {name: status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")}
    check("the server has no capability", all(int(value, 16) == 0 for value in rights.values()), str(rights))
    check("the server can gain no privileges", status["NoNewPrivs"] == "1", f"NoNewPrivs {status['NoNewPrivs']}")
    refused = [
        folder
        for folder in ("/", "/opt/facescan", "/etc", "/usr/local/bin")
        if "Read-only file system" in stack.within("touch", f"{folder}/file")
    ]
    check("the root file system is read-only", len(refused) == 4, f"not writable: {', '.join(refused)}")
    written = stack.within("sh", "-c", "touch /tmp/file /var/lib/facescan/file && rm /tmp/file /var/lib/facescan/file && echo written")
    check("the data folder and /tmp are writable", written.strip() == "written", written.strip())


def check_requests(stack: Stack) -> str:
    """Checks a request without a key and one with it. Returns the id of the stored image."""
    secret, stack.secret = stack.secret, ""
    status, _ = stack.detect()
    check("a request without a key is refused", status == 401, f"status {status}")
    stack.secret = secret
    status, answer = stack.detect()
    faces = len(answer["results"][0]["faces"])
    check("the published port finds the faces", (status, faces) == (200, PICTURE[1]), f"status {status}, {faces} faces")
    return answer["results"][0]["image_id"]


def check_metrics(stack: Stack) -> None:
    """Checks the listener of the metrics and who reaches it."""
    container = stack.container(stack.server)
    metrics = stack.get(container, 9464, "/metrics")
    count = len([line for line in metrics.splitlines() if line.startswith("facescan_")])
    check("the inner listener has the metrics", count > 50, f"{count} series")
    published = stack.engine.docker("port", container).stdout.splitlines()
    check("only the port 8080 is published", len(published) == 1 and published[0].startswith("8080/tcp"), ", ".join(published))
    wait("Prometheus", lambda: stack.targets("facescan") == ["up"])
    check("Prometheus reads the metrics", True, f"target {stack.targets('facescan')}")


def check_restart(stack: Stack, stored: str) -> None:
    """Checks that new containers have the data of the old ones."""
    stack.compose("down", "--timeout", "40")
    stack.up()
    status, answer = stack.send("GET", f"/images/{stored}")
    check("new containers have the stored image and the key", status == 200 and stored in answer.decode(), f"status {status}")
    _, answer = stack.detect()
    check(
        "new containers answer from the database",
        answer["results"][0].get("cached") is True,
        f"cached: {answer['results'][0].get('cached')}",
    )


def check_stop(stack: Stack) -> None:
    """Checks that every accepted request is answered while the server stops.

    The clients use the address in the network of the containers. The proxy of a published port accepts a connection
    before it knows whether the server does.
    """
    container = stack.container(stack.server)
    before = after = 0
    lost: list[str] = []
    statuses: set[int] = set()
    ends: list[str] = []
    for _ in range(STOPS):
        stack.up()
        clients = Clients(stack.engine.address(container), stack.secret)
        wait("the clients", lambda: clients.count() >= 100)
        answered, started = clients.count(), time.monotonic()
        stack.engine.docker("stop", "--time", "40", container)
        ends.append(f"code {stack.engine.inspect(container, '{{.State.ExitCode}}')} after {time.monotonic() - started:.1f} s")
        clients.join()
        before, after = before + answered, after + clients.count() - answered
        lost += clients.lost
        statuses |= set(clients.statuses)
    check(
        "a stop loses no request",
        not lost and statuses == {200},
        f"{STOPS} stops, {before} answers before and {after} after the signals, status {statuses}, {len(lost)} lost {sorted(set(lost))}",
    )
    check("the server stops by itself", all(end.startswith("code 0 ") for end in ends), ", ".join(ends))


def cpu(engine: Engine) -> None:
    """The profiles backend-cpu and metrics."""
    with Stack(engine, "backend-cpu", "backend-cpu", "metrics") as stack:
        stack.create_key()
        check("the first key is created before the start", stack.secret.startswith("fsk_"), f"fsk_…, {len(stack.secret)} characters")
        stack.up()
        check_rights(stack)
        stored = check_requests(stack)
        check_metrics(stack)
        check_restart(stack, stored)
        check_stop(stack)


def done_items(stack: Stack, container: str) -> int:
    """Returns the items that a worker has done."""
    metrics = stack.get(container, 9464, "/metrics")
    return int(sum(float(value) for value in re.findall(r'^facescan_batch_items_total\{.*"ok".*\} (\S+)$', metrics, re.MULTILINE)))


def workers(engine: Engine) -> None:
    """The profile workers."""
    with Stack(engine, "workers", "server", "metrics") as stack:
        stack.create_key()
        stack.up()
        both = stack.containers("worker")
        check("two workers are healthy", len(both) == 2, f"{len(both)} workers")
        batch = stack.submit([image(number) for number in range(ITEMS)], options={"det_size": 640})
        stack.until_done(batch)
        shares = [done_items(stack, container) for container in both]
        check("both workers take part", min(shares) > 0 and sum(shares) == ITEMS, f"{shares} items")
        verify("workers", stack, batch, ITEMS)
        wait("Prometheus", lambda: stack.targets("facescan-worker") == ["up", "up"])
        check("Prometheus reads the metrics of both workers", True, f"targets {stack.targets('facescan-worker')}")
        kill_one(stack, both)


def kill_one(stack: Stack, both: list[str]) -> None:
    """Kills a worker in the middle of a batch, and checks that the result is exact."""
    scans = "SELECT count(*) FROM scans"
    stored = int(stack.query(scans)[0][0])
    batch = stack.submit([image(number) for number in range(ITEMS, 2 * ITEMS)], options={"det_size": 640})
    wait("the first results", lambda: stack.batch(batch)["counts"]["ok"] > 0)
    counts = stack.batch(batch)["counts"]
    stack.engine.docker("kill", "--signal", "KILL", both[0])
    check("a worker is killed in the middle", counts["ok"] < ITEMS and counts["running"] > 0, str(counts))
    started = time.monotonic()
    stack.until_done(batch)
    items = stack.items(batch)
    results = {item["result"]["image"]["sha256"] for item in items if item["state"] == "ok"}
    added = int(stack.query(scans)[0][0]) - stored
    check(
        "after the kill, every item has one result",
        len(items) == len(results) == added == ITEMS,
        f"{len(items)} items, {len(results)} results, {added} scans, {time.monotonic() - started:.0f} s after the kill",
    )


def gpu(engine: Engine) -> None:
    """The profile backend-gpu on a machine without a card."""
    with Stack(engine, "backend-gpu", "backend-gpu") as stack:
        refused = stack.compose("up", "--detach", "--no-build", check=False)
        check(
            "the engine refuses the profile without a card",
            refused.returncode != 0 and NO_DRIVER in refused.stderr,
            refused.stderr.strip().splitlines()[-1],
        )
    for name, container_image in (("cuda", "facescan:cuda"), ("cpu", "facescan:cpu")):
        check_fallback(engine, name, container_image)


def check_fallback(engine: Engine, name: str, container_image: str) -> None:
    """Checks that a server with the settings of a GPU says that it uses the CPU. The card is not requested."""
    override = engine.scratch / "no-card.yml"
    override.write_text(
        f"services:\n  backend-gpu:\n    image: {container_image}\n    deploy: !reset null\n    environment:\n      GPU_BACKEND: cuda\n"
    )
    with Stack(engine, "backend-gpu", "backend-gpu", files=(override,)) as stack:
        stack.create_key()
        stack.up()
        check_rights(stack)
        status, answer = stack.detect()
        faces = len(answer["results"][0]["faces"])
        check(f"{name}: the server finds the faces", (status, faces) == (200, PICTURE[1]), f"status {status}, {faces} faces")
        detection = stack.json("GET", "/devices")["operations"]["face_detection"]
        check(
            f"{name}: /devices says that the CPU is used",
            detection["requested"].startswith("cuda") and detection["active"] == "cpu",
            f"{detection['requested']} → {detection['active']}: {detection['reason']}",
        )
        log = stack.compose("logs", "--no-color", "--no-log-prefix", "backend-gpu").stdout.splitlines()
        # Compose writes a sequence for terminals before the line.
        lines = [line[max(line.find("{"), 0) :] for line in log if "falling back to the cpu" in line and "cuda:0" in line]
        check(f"{name}: the log says that the CPU is used", len(lines) > 0, f"{len(lines)} lines, {lines[0] if lines else ''}")


PROOFS = {"cpu": cpu, "workers": workers, "gpu": gpu}
