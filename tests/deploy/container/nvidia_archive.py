# SPDX-License-Identifier: Apache-2.0
"""An archive of Debian packages with the names and places of NVIDIA's, made from the CUDA toolkit of this machine, for tests
that do not reach NVIDIA's. A package has the files of the same component on PyPI, and of those that NVIDIA's depends on, so
what a recipe does not install is not there. Only a toolkit that was put together from PyPI's packages tells whose a file is.
"""

import csv
import hashlib
import pathlib
import re
import shutil
import subprocess

# Where the archive is seen in a container.
MOUNTED = "/nvidia"

# Name: (components of PyPI, which of their files, what it depends on).
PACKAGES = {
    "cuda-nvcc-{version}": (["cuda_nvcc", "cuda_crt", "nvvm"], "all", []),
    "cuda-cudart-{version}": (["cuda_runtime"], "libraries", []),
    "cuda-cudart-dev-{version}": (["cuda_runtime", "cuda_cccl", "cuda_culibos"], "development", ["cuda-cudart-{version}"]),
    "libcublas-{version}": (["cublas"], "libraries", []),
    "libcublas-dev-{version}": (["cublas"], "development", ["libcublas-{version}"]),
    "cuda-nvrtc-{version}": (["cuda_nvrtc"], "libraries", []),
    "cuda-nvrtc-dev-{version}": (["cuda_nvrtc"], "development", ["cuda-nvrtc-{version}"]),
    "libcudnn9-cuda-{major}": (["cudnn"], "libraries", []),
    "libcudnn9-dev-cuda-{major}": (["cudnn"], "development", ["libcudnn9-cuda-{major}"]),
    "libnccl2": (["nccl"], "libraries", []),
    "libnccl-dev": (["nccl"], "development", ["libnccl2"]),
}


class NoToolkit(Exception):
    """Why no archive can be made here."""


class Toolkit:
    def __init__(self):
        nvcc = shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")
        if nvcc is None:
            raise NoToolkit("found nvcc neither on PATH nor in /usr/local/cuda/bin; the CUDA toolkit comes from NVIDIA")
        self.folder = pathlib.Path(nvcc).resolve().parent.parent
        printed = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
        self.version = re.search(r"release (\d+\.\d+)", printed)[1]
        self.major = self.version.split(".")[0]
        if not (self.folder / "dist-info").is_dir():
            raise NoToolkit(f"the CUDA toolkit in {self.folder} was not put together from PyPI's packages, so nothing tells "
                            "which of NVIDIA's packages has which of its files")

    def files(self, component):
        """Paths in the toolkit, with the names without a version that libraries have for the linker."""
        found = list((self.folder / "dist-info").glob(f"nvidia_{component}-*.dist-info/RECORD")) + list(
            (self.folder / "dist-info").glob(f"nvidia_{component}_cu{self.major}-*.dist-info/RECORD"))
        assert len(found) == 1, f"expected one record of {component} in {self.folder}/dist-info, found {found}"
        with open(found[0], newline="") as record:
            recorded = [pathlib.Path(row[0]).parts for row in csv.reader(record)]
        files = [pathlib.Path(*parts[2:]) for parts in recorded
                 if parts[0] == "nvidia" and parts[2] in ("bin", "include", "lib", "nvvm")]
        links = [link.relative_to(self.folder) for link in (self.folder / "lib").glob("*.so")
                 if link.is_symlink() and pathlib.Path("lib") / link.readlink() in files]
        return files + links


def _is_library(path):
    return re.search(r"\.so\.\d", path.name) is not None


def _place(component, path, version):
    """Where NVIDIA's Debian packages have a file."""
    if component in ("nccl", "cudnn"):
        headers = "usr/include/x86_64-linux-gnu" if component == "cudnn" else "usr/include"
        return pathlib.Path("usr/lib/x86_64-linux-gnu" if path.parts[0] == "lib" else headers, *path.parts[1:])
    cuda = pathlib.Path(f"usr/local/cuda-{version}")
    return cuda / ("targets/x86_64-linux" if path.parts[0] in ("include", "lib") else "") / path


def _pack(folder, name, control, fill):
    root = folder / "root"
    (root / "DEBIAN").mkdir(parents=True)
    fill(root)
    fields = {"Package": name, "Architecture": "amd64", "Maintainer": "nobody <nobody@localhost>",
              "Description": "for a test, from this machine's CUDA toolkit", **control}
    (root / "DEBIAN/control").write_text("".join(f"{key}: {value}\n" for key, value in fields.items()))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Znone", "--build", root, folder / f"{name}.deb"],
                   check=True, stdout=subprocess.DEVNULL)
    shutil.rmtree(root)


def _fill(toolkit, components, kind):
    def fill(root):
        for component in components:
            for path in toolkit.files(component):
                if kind == "all" or (kind == "libraries") == _is_library(path):
                    target = root / _place(component, path, toolkit.version)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(toolkit.folder / path, target, follow_symlinks=False)
        cuda = root / f"usr/local/cuda-{toolkit.version}"
        if "cuda_nvcc" in components:
            (cuda / "include").symlink_to("targets/x86_64-linux/include")
            (cuda / "lib64").symlink_to("targets/x86_64-linux/lib")
        elif kind == "libraries" and cuda.exists():
            loader = root / f"etc/ld.so.conf.d/{components[0]}.conf"
            loader.parent.mkdir(parents=True)
            loader.write_text(f"/usr/local/cuda-{toolkit.version}/targets/x86_64-linux/lib\n")
        if kind == "libraries":
            (root / "DEBIAN/triggers").write_text("activate-noawait ldconfig\n")
    return fill


def _index(folder):
    entries = []
    for deb in sorted(folder.glob("*.deb")):
        control = subprocess.run(["dpkg-deb", "--field", deb], capture_output=True, text=True, check=True).stdout
        digest = hashlib.sha256()
        with open(deb, "rb") as file:
            while block := file.read(2**20):
                digest.update(block)
        entries.append(f"{control}Filename: ./{deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest.hexdigest()}\n")
    (folder / "Packages").write_text("\n".join(entries))


def make_archive(folder, toolkit):
    """Makes the archive in `folder`, to be mounted at MOUNTED. Returns the address of its cuda-keyring, the package that makes
    apt know the archive, and the version as names of packages have it."""
    version = toolkit.version.replace(".", "-")
    names = {"version": version, "major": toolkit.major}
    folder.mkdir()
    for name, (components, kind, depends) in PACKAGES.items():
        control = {"Version": toolkit.version}
        if depends:
            control["Depends"] = ", ".join(one.format(**names) for one in depends)
        _pack(folder, name.format(**names), control, _fill(toolkit, components, kind))
    _index(folder)

    def source_line(root):
        listed = root / "etc/apt/sources.list.d/cuda.list"
        listed.parent.mkdir(parents=True)
        listed.write_text(f"deb [trusted=yes] file:{MOUNTED} ./\n")

    _pack(folder, "cuda-keyring", {"Version": "1"}, source_line)
    return f"file://{MOUNTED}/cuda-keyring.deb", version
