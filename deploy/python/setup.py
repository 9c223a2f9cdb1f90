# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel. Two things in it are written here and are in no commit: the classes of the
messages, by protoc from the schemas of the checkout, and the synchronous client, from the
asynchronous one. Everything temporary is in a folder that is removed.
"""
import atexit
import pathlib
import re
import shutil
import subprocess
import tempfile

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
WORK = pathlib.Path(tempfile.mkdtemp(prefix="stretto-wheel-"))
atexit.register(shutil.rmtree, WORK, ignore_errors=True)

# Folders as protoc sees them: the configuration of the client gets a path inside the package.
SCHEMAS = {
    "stretto/v1alpha1/job.proto": [f"-I{ROOT}/proto"],
    "stretto/v1alpha1/plan.proto": [f"-I{ROOT}/proto"],
    "stretto/cli/config.proto": [f"-Istretto/cli={ROOT}/coordinator/cli/client"],
    "stretto/google_rpc/status.proto": [f"-I{WORK}"],
    "stretto/google_rpc/error_details.proto": [f"-I{WORK}"],
}
# The synchronous client is the asynchronous one without these words.
SYNCHRONOUS = [
    (r"\basync (def|for|with)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\bAsyncClient\b", "Client"),
    (r"\bAsync(Iterator|Generator)\b", r"\1"),
    (r"\b__a(enter|exit)__\b", r"__\1__"),
    (r"\baclosing\b", "closing"),
    (r"\basynchronous\b", "synchronous"),
]


def version():
    """That of the whole project."""
    found = re.search(r"^project\(stretto VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)
    return found[1]


def program(name, package):
    path = shutil.which(name)
    if path is None:
        raise SystemExit(f"the wheel of stretto: found no {name}, expected it from {package}")
    return path


def private_details():
    """Google's error details under names of ours, so that they never meet googleapis-common-protos,
    which registers the same names in the same process."""
    folder = WORK / "stretto/google_rpc"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("status", "error_details"):
        text = (ROOT / f"proto/google/rpc/{name}.proto").read_text()
        (folder / f"{name}.proto").write_text(
            text.replace("package google.rpc;", "package stretto.google_rpc;"))


def synchronous(text):
    for pattern, replacement in SYNCHRONOUS:
        text = re.sub(pattern, replacement, text)
    return text


class Build(build_py):
    def run(self):
        super().run()
        out = pathlib.Path(self.build_lib)
        protoc = program("protoc", "the Debian package protobuf-compiler")
        plugin = program("grpc_python_plugin", "the Debian package protobuf-compiler-grpc")
        private_details()
        for schema, folders in SCHEMAS.items():
            services = [f"--plugin=protoc-gen-grpc={plugin}", f"--grpc_out={out}"]
            subprocess.run([protoc, *folders, f"--python_out={out}", f"--pyi_out={out}",
                            *(services if schema.endswith("job.proto") else []), schema], check=True)
            (out / schema).with_name("__init__.py").touch()
        client = (HERE / "stretto/_async/client.py").read_text()
        (out / "stretto/_sync/client.py").write_text(synchronous(client))


if not (ROOT / "proto/stretto/v1alpha1/job.proto").exists():
    raise SystemExit(f"the wheel of stretto: found no proto/stretto/v1alpha1/job.proto in {ROOT}, "
                     "expected deploy/python of a checkout")
setup(version=version(), cmdclass={"build_py": Build},
      options={"build": {"build_base": str(WORK / "build")}, "egg_info": {"egg_base": str(WORK)}})
