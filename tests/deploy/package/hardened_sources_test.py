#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source of what is shipped is compiled with the hardening flags, generated ones too: a program
has calls of __stack_chk_fail if a single one of its sources has the flag.

  hardened_sources_test.py BUILD
"""
import json
import pathlib
import re
import sys

FLAGS = ["-fstack-protector-strong", "-fstack-clash-protection", "-fcf-protection", "-D_FORTIFY_SOURCE=2"]
BUILD = pathlib.Path(sys.argv[1])

findings, looked = [], 0
for entry in json.loads((BUILD / "compile_commands.json").read_text()):
    target = re.search(r" -o (\S+)", entry["command"])[1]
    # nvcc compiles the host's part of device code, which parses nothing (docs/design/0070-hardened-builds.md).
    if target.startswith("tests/") or entry["file"].endswith(".cu"):
        continue
    looked += 1
    words = entry["command"].split()
    findings += [f"{entry['file']}: found no {flag} in its command, expected it" for flag in FLAGS if flag not in words]
    # What parses the flags of a program is not optimised, which bounded copies need.
    if words[-1].endswith("_main.cc"):
        continue
    undone = [word for word in words[words.index(FLAGS[-1]):] if word in ("-U_FORTIFY_SOURCE", "-O0", "-fno-stack-protector")] \
        if FLAGS[-1] in words else []
    findings += [f"{entry['file']}: found {word} after {FLAGS[-1]}, expected nothing that undoes it" for word in undone]
print("\n".join(findings[:20]))
print(f"{looked} sources")
sys.exit(1 if findings or looked < 100 else 0)
