# SPDX-License-Identifier: Apache-2.0
"""Builds the wheel. Three things in it are written here and are in no commit: the classes of the
messages, by protoc from the schemas of the checkout, the synchronous client, from the asynchronous
one, and the bill of materials. Everything temporary is in a folder that is removed. The same sources
and tools give the same bytes.
"""
import atexit
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from setuptools import setup
from setuptools.command.build_py import build_py
try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # before setuptools 70.1
    from wheel.bdist_wheel import bdist_wheel

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
# Programs that write code, and their packages.
TOOLS = {"protoc": "protobuf-compiler", "grpc_python_plugin": "protobuf-compiler-grpc"}
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
        raise SystemExit(f"the wheel of stretto: found no {name}, expected it from the Debian package {package}")
    return path


def provenance():
    """Date and commit, as all packages have them. The zip file takes its dates from the environment."""
    found = subprocess.run([ROOT / "deploy/package/provenance.sh"], stdout=subprocess.PIPE, text=True, check=True).stdout
    os.environ.update(pair.split("=", 1) for pair in found.split())


def bill_of_materials(dist_info):
    """An SPDX document in the folder that PEP 770 names: what the client needs, and what made it."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(ROOT / "deploy/package/bill"))
    import debian
    import spdx
    bill = spdx.Document("stretto-python", version(), int(os.environ["SOURCE_DATE_EPOCH"]), os.environ["STRETTO_COMMIT"])
    metadata = (dist_info / "METADATA").read_text()
    for name, range_of, extra in re.findall(r"^Requires-Dist: ([A-Za-z0-9_.-]+) *([^;\n]*)(.*)$", metadata, re.M):
        key = spdx.identifier("Python", name)
        bill.add_package(key, name, None, None, purl=f"pkg:pypi/{name.lower().replace('_', '-')}",
                         comment=f"Versions {range_of.strip(' ()') or 'of any number'}.")
        bill.relate(key, "OPTIONAL_DEPENDENCY_OF" if extra else "RUNTIME_DEPENDENCY_OF", bill.main)
    tools = debian.owners([program(name, package) for name, package in TOOLS.items()])
    for values in debian.describe(tools.values()).values():
        key = spdx.identifier("Debian", values["binary:Package"])
        bill.add_package(key, values["Package"], values["Version"], None, purl=debian.purl(values))
        bill.relate(key, "BUILD_TOOL_OF", bill.main)
    file = dist_info / "sboms/stretto.spdx.json"
    root = dist_info.parent
    names = [str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()]
    bill.add_files(root, names, str(file.relative_to(root)), also=[str(dist_info.relative_to(root) / "RECORD")])
    file.parent.mkdir()
    file.write_text(bill.text())


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
        protoc, plugin = (program(name, package) for name, package in TOOLS.items())
        private_details()
        for schema, folders in SCHEMAS.items():
            services = [f"--plugin=protoc-gen-grpc={plugin}", f"--grpc_out={out}"]
            subprocess.run([protoc, *folders, f"--python_out={out}", f"--pyi_out={out}",
                            *(services if schema.endswith("job.proto") else []), schema], check=True)
            (out / schema).with_name("__init__.py").touch()
        for name in ("client.py", "peer.py"):
            source = (HERE / "stretto/_async" / name).read_text()
            (out / "stretto/_sync" / name).write_text(synchronous(source))


class Wheel(bdist_wheel):
    def write_wheelfile(self, dist_info, *arguments, **named):
        """The last step before all files are packed, where the zip file's own RECORD is made."""
        super().write_wheelfile(dist_info, *arguments, **named)
        dist_info = pathlib.Path(dist_info)
        bill_of_materials(dist_info)
        for path in dist_info.parent.rglob("*"):  # whatever the umask is
            path.chmod(0o755 if path.is_dir() else 0o644)


if not (ROOT / "proto/stretto/v1alpha1/job.proto").exists():
    raise SystemExit(f"the wheel of stretto: found no proto/stretto/v1alpha1/job.proto in {ROOT}, "
                     "expected deploy/python of a checkout")
provenance()
setup(version=version(), cmdclass={"build_py": Build, "bdist_wheel": Wheel},
      options={"build": {"build_base": str(WORK / "build")}, "egg_info": {"egg_base": str(WORK)}})
