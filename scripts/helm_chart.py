"""Renders the Helm chart of docker/helm with Helm's own code, and compares it with the manifests of docker/kubernetes.

`scripts/setup --lint` fetches Helm as a library of PyPI, which has no program. It needs no cluster and no network.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

from packages import ROOT, RUNTIME

CHART = ROOT / "docker" / "helm" / "facescan"
LIBRARY = RUNTIME / "lint" / "helm"
Manifest = dict[str, Any]

# Values of installations that the defaults do not have.
SAMPLES: dict[str, Manifest] = {
    "everything": {
        "image": {"tag": "0.1.0-cuda", "pullSecrets": ["registry"]},
        "settings": {"FACESCAN__BATCHES__PAYLOADS": "file:///var/lib/facescan/payloads", "FACESCAN__LIMITS__MAX_PIXELS": 100000000},
        "extraEnv": [{"name": "FACESCAN__QDRANT__API_KEY", "valueFrom": {"secretKeyRef": {"name": "qdrant", "key": "api-key"}}}],
        "server": {
            "autoscaling": {"enabled": True},
            "nodeSelector": {"disk": "fast"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
        },
        "worker": {"scaler": {"kind": "cpu"}},
        "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "certificate"},
        "persistence": {"enabled": True, "storageClass": "shared"},
        "networkPolicy": {"callers": ["ingress-nginx"]},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "backup": {"enabled": True},
        "database": {"certificateAuthority": "authority"},
    },
    "little": {
        "secret": {"storeCredentials": False},
        "server": {"replicas": 1},
        "worker": {"scaler": {"kind": "none", "min": 2}},
        "nats": {"enabled": False},
        "networkPolicy": {"enabled": False},
        "persistence": {"enabled": True, "existingClaim": "mine"},
        "backup": {"enabled": True, "existingClaim": "mine"},
    },
}
# Values that must be refused, and a part of the message.
REFUSED: list[tuple[Manifest, str]] = [
    ({"imagee": {}}, "imagee"),
    ({"image": {"tag": "latest"}}, "tag"),
    ({"worker": {"scaler": {"kind": "hpa"}}}, "kind"),
    ({"settings": {"FACESCAN__BATCHES__QUEUE_TOKEN": "a"}}, "extraEnv"),
    ({"settings": {"FACESCAN__BATCHES__QUEUE": "nats://other:4222"}}, "nats.enabled"),
    ({"settings": {"FACESCAN__BATCHES__PAYLOADS": "file:///var/lib/facescan"}}, "persistence.enabled"),
]


def library() -> Any:
    """Returns the module with Helm."""
    if not LIBRARY.is_dir():
        sys.exit(f"there is no Helm in {LIBRARY}: run scripts/setup --lint")
    if str(LIBRARY) not in sys.path:
        sys.path.insert(0, str(LIBRARY))
    return importlib.import_module("helm_python")


def render(values: Manifest, release: str = "facescan") -> dict[str, str]:
    """Returns the text of each template. Raises an exception of the library if Helm refuses the chart or the values."""
    with library().Chart.load(CHART) as chart:
        return {name.partition("/templates/")[2]: text for name, text in chart.render(values, name=release, namespace="faces").items()}


def refused(values: Manifest) -> str:
    """Returns the message that refuses the values, or nothing if they are accepted."""
    try:
        render(values)
    except library().HelmError as error:
        return str(error)
    return ""


def lint() -> Iterator[str]:
    """Yields what `helm lint --strict` finds. It also asks for an icon, which a chart does not need."""
    report = library().chart.lint(CHART, {}, strict=True)
    yield from (f"{message['path']}: {message['error']}" for message in report["messages"] if message["severity"] > 1)
    yield from report["errors"]


def variables(manifests: list[Manifest], container: Manifest) -> Manifest:
    """Returns the variables of a container by name, with those of its ConfigMap."""
    data = {manifest["metadata"]["name"]: manifest["data"] for manifest in manifests if manifest["kind"] == "ConfigMap"}
    found: Manifest = {}
    for source in container.get("envFrom", []):
        found |= data[source["configMapRef"]["name"]]
    return found | {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in container.get("env", [])}


def comparable(manifests: list[Manifest]) -> dict[tuple[str, str], Manifest]:
    """Returns the specification of each object, without what the chart writes in another way."""
    found = {}
    for manifest in manifests:
        if manifest["kind"] in ("ConfigMap", "PodDisruptionBudget"):
            continue
        spec = dict(manifest["spec"])
        if manifest["kind"] in ("Deployment", "StatefulSet"):
            pod = dict(spec["template"]["spec"])
            pod["containers"] = [
                {name: value for name, value in container.items() if name not in ("env", "envFrom", "imagePullPolicy")}
                | {"env": variables(manifests, container)}
                for container in pod["containers"]
            ]
            spec |= {"template": {"app": spec["template"]["metadata"]["labels"]["app"], "spec": pod}}
        found[manifest["kind"], manifest["metadata"]["name"]] = spec
    return found


def differences(one: Any, other: Any, place: str = "") -> Iterator[str]:
    """Yields the places where two values differ.

    >>> list(differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}))
    ['a.1.b is 2 and 3']
    """
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}, key=str):
            yield from differences(one.get(key), other.get(key), f"{place}.{key}" if place else str(key))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (left, right) in enumerate(zip(one, other)):
            yield from differences(left, right, f"{place}.{number}")
    elif one != other:
        yield f"{place} is {one} and {other}"


def compare(kustomize: list[Manifest], chart: list[Manifest]) -> Iterator[str]:
    """Yields what differs between the manifests and the chart with its defaults, for the release `facescan`."""
    ours, theirs = comparable(kustomize), comparable(chart)
    for kind, name in sorted({*ours, *theirs}):
        for difference in differences(ours.get((kind, name)), theirs.get((kind, name))):
            yield f"{kind} {name}: {difference} in docker/kubernetes and in the chart"
