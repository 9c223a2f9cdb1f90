#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what is wrong in one place with the texts of a corpus: a start for the fuzzer, which guesses bytes and not keys.

    tests/fuzz/variants.py TARGETS FOLDER TARGET...

TARGETS is fuzz_targets.txt of a build. The variants of TARGET go to FOLDER/TARGET, where run.sh keeps its inputs; with --keep it
adds those that reach something new to the committed ones. A JSON text lacks each key in turn, and has each value of another type
in place of each value; other texts lack each line, have it twice, and have other numbers. Inputs that are no text are left out.
"""
import hashlib
import json
import pathlib
import re
import sys

OTHERS = [None, True, -1, 0, 1 << 63, 1e400, 0.5, "", "x", "\x1b[2J", [], [1], {}, {"x": 1}]
NUMBERS = ["-1", "0", "0.5", "1e999", "99999999999999999999", "nan", "x"]
MOST_BYTES = 8_000  # of a text; a longer one has places that are alike
MOST_PLACES = 100


def places_of(value, path=()):
    """Yields the path of each value within a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places_of(inner, (*path, key))


def json_variants(text):
    for path in list(places_of(json.loads(text)))[:MOST_PLACES]:
        for other in [..., *OTHERS]:
            document = json.loads(text)
            parent = document
            for key in path[:-1]:
                parent = parent[key]
            if other is ...:
                del parent[path[-1]]
            else:
                parent[path[-1]] = other
            yield json.dumps(document)
    for other in OTHERS:
        yield json.dumps(other)
    yield text.replace("{", '{"twice": 1, "twice": 2, ', 1)
    yield "[" * 100


def line_variants(text):
    lines = text.splitlines(keepends=True)
    for at, line in enumerate(lines[:MOST_PLACES]):
        before, after = "".join(lines[:at]), "".join(lines[at + 1:])
        yield before + after
        yield before + line + line + after
        yield before + line + "x\n" + after
        for number in list(re.finditer(r"\d+(\.\d+)?", line))[:20]:
            for other in NUMBERS:
                yield before + line[:number.start()] + other + line[number.end():] + after
        for word in list(re.finditer(r"\S+", line))[:20]:
            yield before + line[:word.start()] + line[word.end():] + after


def variants_of(content):
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return
    if len(text) > MOST_BYTES or any(ord(c) < 0x20 and c not in "\n\r\t\x1b" for c in text):
        return
    try:
        json.loads(text)
        yield from json_variants(text)
    except ValueError:
        pass
    yield from line_variants(text)


def main():
    targets, folder, *names = sys.argv[1:]
    for line in pathlib.Path(targets).read_text().splitlines():
        name, _, folders, _, _ = line.split("|")
        if name not in names:
            continue
        to = pathlib.Path(folder) / name
        to.mkdir(parents=True, exist_ok=True)
        found = {variant.encode() for seeds in folders.split() for seed in sorted(pathlib.Path(seeds).iterdir())
                 if seed.is_file() for variant in variants_of(seed.read_bytes())}
        for variant in found:
            (to / hashlib.sha1(variant).hexdigest()).write_bytes(variant)
        print(f"{name}: {len(found)} variants")


main()
