#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints which lines of sources a run of a program has reached, as two cells of a table.

    tests/fuzz/coverage.py PROGRAM PROFILE SOURCE...

A source of a parser also has functions that print, write or open; a target that parses does not call them. So the first cell
counts the functions that were entered, and the second one the lines of those.
"""
import json
import subprocess
import sys


def export(program, profile, sources, *more):
    return subprocess.run(["llvm-cov", "export", *more, "-instr-profile", profile, program, *sources],
                          check=True, capture_output=True, text=True).stdout


def main():
    program, profile, *sources = sys.argv[1:]
    counts = {}  # of executions, by file and line
    for line in export(program, profile, sources, "-format=lcov").splitlines():
        if line.startswith("SF:"):
            lines = counts.setdefault(line[3:], {})
        elif line.startswith("DA:"):
            number, count = line[3:].split(",")[:2]
            lines[int(number)] = int(count)
    entered = {}  # by place, because a template is several functions
    for function in json.loads(export(program, profile, sources))["data"][0]["functions"]:
        file, body = function["filenames"][0], function["regions"][0]
        if file in counts:
            place = (file, body[0], body[2])
            entered[place] = entered.get(place, 0) + function["count"]
    reached = {(file, line): count for (file, first, last), entries in entered.items() if entries
               for line, count in counts[file].items() if first <= line <= last}
    covered = sum(count > 0 for count in reached.values())
    print(f"{sum(map(bool, entered.values()))} of {len(entered)}"
          f" | {covered} of {len(reached)} ({100 * covered / max(1, len(reached)):.0f} %)")


main()
