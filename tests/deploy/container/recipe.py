# SPDX-License-Identifier: Apache-2.0
"""Images of the recipe, deploy/container/Containerfile, built by buildah."""

import re
import shutil
import subprocess

from engine import skip


def base_image(engine, source, folder):
    """An image of this machine's Debian; returns its name with its digest, which the recipe wants. `folder`: the build, where
    what clean roots are made from stays."""
    script = ('. "$1"; clean_root_begin "$2"; echo "base $clean_root_base"; clean_root_sources >"$3"')
    sources = engine.folder / "sources.list"
    made = subprocess.run(["bash", "-euo", "pipefail", "-c", script, "bash", source / "tests/deploy/package/clean_root.sh",
                           folder / "clean_root", sources], capture_output=True, text=True)
    if made.returncode == 77:
        skip(made.stdout.strip().removeprefix("skipped: "))
    found = re.search(r"^base (.*)$", made.stdout, re.M)
    assert made.returncode == 0 and found, made
    root = engine.folder / "base.tar"
    subprocess.run(["zstd", "-q", "-d", found[1], "-o", root], check=True)
    container = engine.buildah("from", "scratch").stdout.strip()
    engine.buildah("add", container, root, "/")
    engine.buildah("copy", container, sources, "/etc/apt/sources.list")
    engine.buildah("commit", "--rm", container, "localhost/base")
    root.unlink()
    digest = engine.buildah("images", "--format", "{{.Digest}}", "localhost/base").stdout.strip()
    return f"localhost/base@{digest}"


def build_stage(engine, source, base, stage, tag, *options, **run):
    """The recipe as it is, up to `stage`, from the source tree."""
    engine.buildah("bud", "--isolation", "chroot", "--build-arg", f"BASE={base}", "--target", stage, "--tag", tag, *options,
                   "--file", source / "deploy/container/Containerfile", source, **run)


def build_from_packages(engine, source, packages, base, tag, *options):
    """The image, with `packages` in place of those that the recipe's stages before it compile."""
    context = engine.folder / "context"
    (context / "deploy/container").mkdir(parents=True)
    shutil.copy(source / "deploy/container/steps.sh", context / "deploy/container")
    shutil.copytree(packages, context / "packages", ignore=lambda _, names: [one for one in names if not one.endswith(".deb")])
    recipe, replaced = re.subn(r"^FROM pinned AS plugin\n.*^FROM plugin AS build\n.*?(?=^FROM )",
                               "FROM pinned AS build\nCOPY packages /packages\n",
                               (source / "deploy/container/Containerfile").read_text(), flags=re.M | re.S)
    assert replaced == 1, "the recipe compiles in other stages than this test replaces"
    (context / "Containerfile").write_text(recipe)
    engine.buildah("bud", "--isolation", "chroot", "--build-arg", f"BASE={base}", "--target", "stretto", "--tag", tag, *options,
                   "--file", context / "Containerfile", context)
