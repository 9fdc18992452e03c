"""A container engine of its own: the packages that it needs, its start, its commands and its end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
COMPOSE = ROOT / "docker" / "docker-compose.yml"
PROFILES = ("backend-cpu", "backend-gpu", "backend-rocm", "workers", "metrics")
# The Debian release whose package `docker-compose` is Compose v2. Debian 12 has only Compose v1, which cannot read the file.
# The programs need nothing but glibc 2.34, so they also run on Debian 12.
PLUGIN_SUITE = "trixie"
PLUGINS = ("docker-buildx", "docker-compose")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Failed(Exception):
    """A step failed. The text names the step and says what to do."""


def run(*command: str | Path, check: bool = True, **options) -> subprocess.CompletedProcess:
    """Runs a program and returns its result. Fails with the end of its output."""
    done = subprocess.run(command, check=False, text=True, **({"capture_output": True} | options))
    if check and done.returncode != 0:
        output = ((done.stdout or "") + (done.stderr or "")).strip()
        raise Failed(f"`{' '.join(map(str, command))}` failed:\n{output[-3000:]}")
    return done


def debian_source() -> str:
    """Returns the address of the Debian archive that this machine uses."""
    lines = run("apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages").stdout
    found = re.search(r"^Debian (\S+) bookworm main$", lines, re.MULTILINE)
    if not found:
        raise Failed("apt knows no source of Debian 12 (bookworm): run `apt-get update` on a Debian 12 machine")
    return found[1]


def install_packages() -> None:
    """Installs the engine and debootstrap from Debian if they are missing."""
    wanted = {"dockerd": "docker.io", "docker": "docker.io", "debootstrap": "debootstrap"}
    missing = sorted({package for program, package in wanted.items() if shutil.which(program) is None})
    if missing:
        print(f"containers: installing {', '.join(missing)}", flush=True)
        run("apt-get", "update")
        run("apt-get", "install", "--yes", "--no-install-recommends", *missing)


def fetch_plugins(folder: Path) -> Path:
    """Unpacks Buildx and Compose v2 from Debian's packages. Installs nothing. Returns a folder with settings of the client."""
    plugins = folder / "config" / "cli-plugins"
    plugins.mkdir(parents=True, exist_ok=True)
    apt = folder / "apt"
    for path in ("state/lists/partial", "cache/archives/partial", "parts"):
        (apt / path).mkdir(parents=True)
    (apt / "state" / "status").touch()
    (apt / "sources.list").write_text(f"deb [signed-by={KEYRING}] {debian_source()} {PLUGIN_SUITE} main\n")
    (apt / "apt.conf").write_text(
        f'Dir::State "{apt}/state";\nDir::State::status "{apt}/state/status";\nDir::Cache "{apt}/cache";\n'
        f'Dir::Etc::sourcelist "{apt}/sources.list";\nDir::Etc::sourceparts "{apt}/parts";\nAPT::Sandbox::User "root";\n'
    )
    environment = os.environ | {"APT_CONFIG": str(apt / "apt.conf")}
    run("apt-get", "update", env=environment)
    run("apt-get", "download", *PLUGINS, env=environment, cwd=apt)
    for package in apt.glob("*.deb"):
        run("dpkg-deb", "--extract", package, apt / "unpacked")
    for plugin in PLUGINS:
        shutil.copy(apt / "unpacked/usr/libexec/docker/cli-plugins" / plugin, plugins / plugin)
    shutil.rmtree(apt)
    return plugins.parent


class Engine:
    """A container engine with its own socket, data and process. It changes no other engine and no rule of the firewall."""

    def __init__(self, scratch: Path, data: Path) -> None:
        self.scratch, self.data = scratch, data
        self.log = scratch / "engine.log"
        self.process: subprocess.Popen | None = None
        self.environment = {
            name: value for name, value in os.environ.items() if not re.match("DOCKER_|COMPOSE_|POSTGRES_|GPU_|ALL_GPU", name)
        }
        self.environment |= {
            "DOCKER_HOST": f"unix://{scratch}/docker.sock",
            "DOCKER_CONFIG": str(fetch_plugins(scratch)),
            "BUILDKIT_PROGRESS": "plain",
        }

    def start(self) -> None:
        """Starts the engine with the fastest way to store layers that works here."""
        for driver in ("overlay2", "vfs"):
            self.process = subprocess.Popen(
                [
                    "dockerd",
                    f"--storage-driver={driver}",
                    "--bridge=none",
                    "--iptables=false",
                    "--ip6tables=false",
                    f"--data-root={self.data}",
                    f"--exec-root={self.scratch}/exec",
                    f"--pidfile={self.scratch}/engine.pid",
                    f"--host={self.environment['DOCKER_HOST']}",
                ],
                stdout=self.log.open("ab"),
                stderr=subprocess.STDOUT,
            )
            while self.process.poll() is None:
                if self.docker("version", check=False).returncode == 0:
                    return
                time.sleep(0.2)
        raise Failed(f"the engine does not start:\n{self.log.read_text()[-3000:]}")

    def docker(self, *arguments: str | Path, check: bool = True, **options) -> subprocess.CompletedProcess:
        return run("docker", *arguments, check=check, **({"env": self.environment} | options))

    def versions(self) -> str:
        """Returns the versions of the engine, its storage and Compose."""
        engine = self.docker("info", "--format", "{{.ServerVersion}}, {{.Driver}}").stdout.strip()
        return f"engine {engine}, Compose {self.docker('compose', 'version', '--short').stdout.strip()}"

    def inspect(self, what: str, path: str) -> str:
        return self.docker("inspect", "--format", path, what).stdout.strip()

    def address(self, container: str) -> str:
        """Returns the address of a container in its network."""
        return self.inspect(container, "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")

    def services(self) -> dict[str, dict]:
        """Returns the services of the compose file as Compose reads them."""
        profiles = [part for profile in PROFILES for part in ("--profile", profile)]
        shown = self.docker(
            "compose", "--file", COMPOSE, *profiles, "config", "--format", "json", env=self.environment | {"POSTGRES_PASSWORD": "-"}
        )
        return json.loads(shown.stdout)["services"]

    def stop(self) -> None:
        """Removes the containers and stops the engine, also after a failure."""
        if self.process and self.process.poll() is None:
            containers = self.docker("ps", "--all", "--quiet", check=False).stdout.split()
            if containers:
                self.docker("rm", "--force", "--volumes", *containers, check=False)
            self.docker("network", "prune", "--force", check=False)
            self.docker("volume", "prune", "--force", check=False)
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(60)
            self.process.kill()
            self.process.wait()
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in reversed(mounts):
            if mount.startswith((f"{self.scratch}/", f"{self.data}/")):
                run("umount", "--lazy", mount, check=False)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
