#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the inputs tests/fuzz/corpus/TARGET/made-*: whole values with every field, where the fuzzer would have to guess names,
and the same with one thing wrong, for each error that a parser has. They are what seeds/*.py yield.

    tests/fuzz/make_seeds.py

Needs protoc, which the build needs, too.
"""
import inspect
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE / "seeds"))
import models  # noqa: E402
import network  # noqa: E402
import state  # noqa: E402
import texts  # noqa: E402


def main():
    for module in (texts, models, state, network):
        for target, seeds in inspect.getmembers(module, inspect.isgeneratorfunction):
            folder = HERE / "corpus" / target
            if seeds.__module__ != module.__name__ or not folder.is_dir():
                continue  # a part of others
            for old in folder.glob("made-*"):
                old.unlink()
            for name, content in seeds():
                path = folder / f"made-{name}"
                if path.exists():
                    sys.exit(f"{target}: found two inputs with the name {name}, expected one")
                path.write_bytes(content.encode() if isinstance(content, str) else content)


main()
