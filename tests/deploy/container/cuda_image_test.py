#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The variant of the image with CUDA, where NVIDIA's archive is one that nvidia_archive.py makes: the recipe's stage `plugin`,
as users build it, ends with the plug-in linked, and the image installs a plug-in with the libraries that it is linked to and
opens. No GPU is needed.

  cuda_image_test.py SOURCE PACKAGES FOLDER

PACKAGES: Debian packages, for the image itself. FOLDER: the build, for clean roots and ccache, which stay, and for images,
which go.
"""

import os
import pathlib
import re
import subprocess
import sys

from engine import Engine, need, skip
from nvidia_archive import MOUNTED, NoToolkit, Toolkit, make_archive
from recipe import base_image, build_from_packages, build_stage

SOURCE, PACKAGES, FOLDER = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
STAGE, IMAGE = "localhost/stretto-plugin", "localhost/stretto-cuda"
# One, where users have three: device code is most of the time.
ARCHITECTURE = "90a"
SECONDS = 2400
# Headers that this machine's build has, where deploy/install_packages.sh --with-cuda puts them.
FRONTEND = pathlib.Path("/usr/local/share/cudnn-frontend")


def libraries_of(plugin):
    listed = subprocess.run(["readelf", "-dW", plugin], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", listed))


def stage_links_the_plugin(engine, toolkit, base, options):
    # buildah keeps the recipe's cache there.
    temporary = FOLDER / "cuda_image_cache"
    temporary.mkdir(exist_ok=True)
    build_stage(engine, SOURCE, base, "plugin", STAGE, *options, "--build-arg", f"CUDA_ARCHITECTURES={ARCHITECTURE}",
                timeout=SECONDS, env={**os.environ, "TMPDIR": str(temporary)})
    container = engine.buildah("from", STAGE).stdout.strip()
    root = pathlib.Path(engine.buildah("mount", container).stdout.strip())
    assert not (root / "source/build").exists(), "the stage has the source tree's own build: .dockerignore leaves it out"
    plugin = root / "build/bin/libstretto_cuda.so"
    assert plugin.is_file(), f"the stage has no {plugin}"

    # Its runtime is inside, and the others are opened by their names.
    needed = {one for one in libraries_of(plugin) if one.startswith(("libcu", "libnccl", "libnv"))}
    assert needed == {f"libcublasLt.so.{toolkit.major}"}, f"of CUDA's libraries the plug-in needs {needed}, expected cuBLASLt"
    symbols = subprocess.run(["nm", "-D", "--defined-only", plugin], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1].split("@")[0] for line in symbols.splitlines()]
    assert names == ["stretto_backend_plugin"], f"the plug-in exports {names}"
    sections = subprocess.run(["readelf", "-SW", plugin], capture_output=True, text=True, check=True).stdout
    assert ".nv_fatbin" in sections, f"the plug-in has no device code:\n{sections}"
    for function in (b"ncclGetVersion", b"cudnnGetVersion"):
        assert function in plugin.read_bytes(), f"the plug-in looks for no {function.decode()}: its header was not there"
    engine.buildah("rm", container)
    engine.buildah("rmi", STAGE)


def image_has_the_libraries(engine, toolkit, base, options):
    build_from_packages(engine, SOURCE, PACKAGES, base, IMAGE, *options)
    container = engine.buildah("from", IMAGE).stdout.strip()

    def run(*command):
        done = engine.buildah("run", "--isolation", "chroot", container, "--", *command, check=False)
        return done.stdout + done.stderr

    linked = run("ldd", "/usr/lib/stretto/libstretto_cuda.so")
    missing = [line.strip() for line in linked.splitlines() if "not found" in line]
    assert not missing, f"the image lacks libraries of the plug-in: {missing}"
    assert f"libcublasLt.so.{toolkit.major} => /usr/local/cuda" in linked, linked
    # By its name alone, as the plug-in opens it.
    known = run("/sbin/ldconfig", "-p")
    for library in ("libnccl.so.2", "libcudnn.so.9", f"libnvrtc.so.{toolkit.major}"):
        assert f"{library} " in known, f"the image's loader knows no {library}:\n{known}"
    devices = run("stretto-bench", "devices")
    assert "no NVIDIA driver on this machine" in devices, f"expected only a driver to be missing, found:\n{devices}"


def main():
    need()
    try:
        toolkit = Toolkit()
    except NoToolkit as reason:
        skip(reason)
    engine = Engine(FOLDER / "cuda_images")
    try:
        archive = engine.folder / "nvidia"
        keyring, version = make_archive(archive, toolkit)
        options = ["--volume", f"{archive}:{MOUNTED}:ro", "--build-arg", f"CUDA_KEYRING={keyring}",
                   "--build-arg", f"CUDA_VERSION={version}"]
        if FRONTEND.is_dir():  # else a container fetches it
            options += ["--volume", f"{FRONTEND}:{FRONTEND}:ro"]
        base = base_image(engine, SOURCE, FOLDER)
        stage_links_the_plugin(engine, toolkit, base, options)
        image_has_the_libraries(engine, toolkit, base, options)
    finally:
        engine.end()
    print("ok")


if __name__ == "__main__":
    main()
