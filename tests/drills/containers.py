"""Proofs of the container files: the images are built, and each profile of the compose file runs as docs/operations.md says.

The images and the containers belong to the container engine of this machine. The compose project has a name of its own, so
another installation on the machine is not touched.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import secrets
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

from own_server import free_port
from packages import ROOT, RUNTIME

from .installation import Installation, check, image, verify, wait

COMPOSE = ROOT / "docker" / "docker-compose.yml"
PROJECT = "facescan-proofs"
# The characters must be escaped in a URL, but not in the variable that the compose file uses.
PASSWORD = f"p@ss/w%rd {secrets.token_hex(8)}"
PICTURE = (RUNTIME / "pictures" / "t1.jpg", 6)

# The services that get `.env`.
SERVICES = ("backend-cpu", "backend-gpu", "backend-rocm", "server", "worker")

ITEMS = 300
# The message of the engine on a machine without the NVIDIA Container Toolkit. docs/gpu.md has it.
NO_DRIVER = 'could not select device driver "nvidia" with capabilities: [[gpu]]'


class Failed(Exception):
    """A command failed. The text names the command and has the end of its output."""


def docker(*arguments: str | Path, check: bool = True, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs a command of the container engine. Fails with the end of its output."""
    command = ["docker", *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    if check and done.returncode != 0:
        raise Failed(f"`{' '.join(command)}` failed:\n{(done.stdout + done.stderr).strip()[-3000:]}")
    return done


def inspect(what: str, path: str) -> str:
    return docker("inspect", "--format", path, what).stdout.strip()


def address(container: str) -> str:
    """Returns the address of a container in its network, which this machine reaches on Linux."""
    return inspect(container, "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")


def make_images() -> None:
    """Builds the images of the project and prints the times."""
    for name, dockerfile, options in (
        ("facescan:cpu", "Dockerfile", ()),
        ("facescan:cuda", "Dockerfile.cuda", ()),
        # The last stage starts from an image of ROCm that has more than 10 GB.
        ("facescan:migraphx-models", "Dockerfile.migraphx", ("--target", "models")),
    ):
        started = time.monotonic()
        docker("build", *options, "--tag", name, "--file", ROOT / "docker" / dockerfile, ROOT)
        check(f"{dockerfile} builds {name}", True, f"{time.monotonic() - started:.0f} s")


class Stack(Installation):
    """The services of one profile. Leaving it removes their containers and volumes."""

    def __init__(self, profile: str, server: str, *more: str, files: tuple[Path, ...] = (), **variables: str) -> None:
        self.server = server
        self.profiles = [part for name in (profile, *more) for part in ("--profile", name)]
        # `.env` of the repository must not reach the proof.
        self.own = tempfile.TemporaryDirectory(prefix="facescan-proof.")
        alone = Path(self.own.name) / "alone.yml"
        alone.write_text("services:\n" + "".join(f"  {name}:\n    env_file: !reset null\n" for name in SERVICES))
        self.files = [part for file in (COMPOSE, alone, *files) for part in ("--file", str(file))]
        self.port, self.prometheus, self.grafana = free_port(), free_port(), free_port()
        # Variables of the shell and of another installation must not reach the proof.
        own = {name: value for name, value in os.environ.items() if not re.match("COMPOSE_|POSTGRES_|GPU_|ALL_GPU|FACESCAN_", name)}
        ports = {"FACESCAN": self.port, "PROMETHEUS": self.prometheus, "GRAFANA": self.grafana}
        addresses = {f"{name}_ADDRESS": f"127.0.0.1:{port}" for name, port in ports.items()}
        self.environment = own | variables | addresses | {"POSTGRES_PASSWORD": PASSWORD}
        self.secret = ""

    def compose(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return docker(
            "compose", "--project-name", PROJECT, *self.files, *self.profiles, *arguments, check=check, environment=self.environment
        )

    def up(self, *services: str) -> None:
        """Starts the services and waits until all of them are healthy."""
        self.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "300", *services)

    def create_key(self) -> None:
        """Creates a key before the start, so that the first start makes none."""
        made = self.compose("run", "--rm", self.server, "keys", "create", "--name", "first", "--scopes", "infer,read,batch,admin")
        self.secret = made.stdout.split()[-1]

    def read_key(self) -> None:
        """Reads the key that the first start printed."""
        log = self.compose("logs", "--no-color", "--no-log-prefix", self.server).stdout
        keys = set(re.findall(r"fsk_[0-9a-f]{16}_[\w-]+", log))
        check("the first start prints one key", len(keys) == 1, f"{len(keys)} keys")
        self.secret = keys.pop() if keys else ""

    def send(self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", **headers: str) -> tuple[int, bytes]:
        key = {"x_api_key": self.secret} if self.secret else {}
        return super().send(method, path, body, kind, **key, **headers)

    def container(self, service: str) -> str:
        return self.containers(service)[0]

    def containers(self, service: str) -> list[str]:
        return self.compose("ps", "--quiet", service).stdout.split()

    def within(self, *command: str, service: str = "") -> str:
        """Runs a program in a container. Returns its output, also that of a program that fails."""
        done = self.compose("exec", "--no-TTY", service or self.server, *command, check=False)
        return done.stdout + done.stderr

    def get(self, container: str, port: int, path: str) -> str:
        """Reads an address in the network of the containers."""
        connection = http.client.HTTPConnection(address(container), port, timeout=10)
        connection.request("GET", path)
        return connection.getresponse().read().decode()

    def targets(self, job: str) -> list[str]:
        """Returns the health of each target of a job, as Prometheus sees it."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.prometheus}/api/v1/targets", timeout=10) as answer:
            targets = json.load(answer)["data"]["activeTargets"]
        return [target["health"] for target in targets if target["labels"]["job"] == job]

    def panels(self) -> tuple[int, int]:
        """Returns the number of panels of the dashboard in Grafana, and of series that Grafana reads through its data source."""
        base = f"http://127.0.0.1:{self.grafana}/api"
        with urllib.request.urlopen(f"{base}/dashboards/uid/facescan", timeout=10) as answer:
            panels = json.load(answer)["dashboard"]["panels"]
        path = "datasources/proxy/uid/prometheus/api/v1/query?query=facescan_build_info"
        with urllib.request.urlopen(f"{base}/{path}", timeout=10) as answer:
            return len(panels), len(json.load(answer)["data"]["result"])

    def detect(self, query: str = "") -> tuple[int, dict]:
        """Sends the picture. Returns the status and the answer."""
        status, answer = self.send("POST", f"/detect{query}", PICTURE[0].read_bytes(), "image/jpeg")
        return status, json.loads(answer)

    def query(self, text: str) -> list[tuple]:
        shown = self.compose("exec", "--no-TTY", "postgres", "psql", "--username=facescan", "-XAtc", text, "facescan").stdout
        return [tuple(line.split("|")) for line in shown.splitlines()]

    def close(self) -> None:
        self.compose("down", "--volumes", "--timeout", "5", check=False)
        self.own.cleanup()


def check_rights(stack: Stack) -> None:
    """Checks the user, the capabilities and the root file system of the server's container."""
    container = stack.container(stack.server)
    health = inspect(container, "{{.State.Health.Status}}")
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
    published = docker("port", container).stdout.splitlines()
    check("only the port 8080 is published", len(published) == 1 and published[0].startswith("8080/tcp"), ", ".join(published))
    wait("Prometheus", lambda: stack.targets("facescan") == ["up"])
    check("Prometheus reads the metrics", True, f"target {stack.targets('facescan')}")
    panels, series = stack.panels()
    check("Grafana has the dashboard and reads Prometheus", panels > 40 and series == 1, f"{panels} panels, {series} series")


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
    """Checks that the signal of the engine reaches the server. The drill `shutdown` stops servers under load."""
    container, started = stack.container(stack.server), time.monotonic()
    docker("stop", "--time", "40", container)
    end = f"code {inspect(container, '{{.State.ExitCode}}')} after {time.monotonic() - started:.1f} s"
    check("the server stops by itself", end.startswith("code 0 "), end)


def cpu() -> None:
    """The profiles backend-cpu and metrics."""
    with Stack("backend-cpu", "backend-cpu", "metrics") as stack:
        stack.up()
        stack.read_key()
        check_rights(stack)
        stored = check_requests(stack)
        check_metrics(stack)
        check_restart(stack, stored)
        check_stop(stack)


def done_items(stack: Stack, container: str) -> int:
    """Returns the items that a worker has done."""
    metrics = stack.get(container, 9464, "/metrics")
    return int(sum(float(value) for value in re.findall(r'^facescan_batch_items_total\{.*"ok".*\} (\S+)$', metrics, re.MULTILINE)))


def workers() -> None:
    """The profile workers."""
    with Stack("workers", "server", "metrics") as stack:
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


def gpu() -> None:
    """The profile backend-gpu on a machine without a card."""
    with Stack("backend-gpu", "backend-gpu") as stack:
        refused = stack.compose("up", "--detach", "--no-build", check=False)
        check(
            "the engine refuses the profile without a card",
            refused.returncode != 0 and NO_DRIVER in refused.stderr,
            refused.stderr.strip().splitlines()[-1],
        )
    for name, container_image in (("cuda", "facescan:cuda"), ("cpu", "facescan:cpu")):
        check_fallback(name, container_image)


def check_fallback(name: str, container_image: str) -> None:
    """Checks that a server with the settings of a GPU says that it uses the CPU. The card is not requested."""
    with tempfile.TemporaryDirectory() as folder:
        override = Path(folder) / "no-card.yml"
        service = f"image: {container_image}\n    deploy: !reset null\n    environment:\n      GPU_BACKEND: cuda\n"
        override.write_text(f"services:\n  backend-gpu:\n    {service}")
        with Stack("backend-gpu", "backend-gpu", files=(override,)) as stack:
            check_fallen_back(name, stack)


def check_fallen_back(name: str, stack: Stack) -> None:
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
