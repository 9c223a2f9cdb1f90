#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints which lines of each parser the inputs of its targets have reached, and fails below FLOOR percent.

    tests/fuzz/coverage.py FLOOR TARGETS FOLDER TARGET...

TARGETS is fuzz_targets.txt of a build; FOLDER has TARGET.lcov of each target that ran (run.sh). Every line of a parser's source
counts, but for those that not_reached.txt names with the reason. Sources of handlers are shown and may have less.
"""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOT_REACHED = pathlib.Path(__file__).with_name("not_reached.txt")


def read_counts(path, counts):
    """Adds the executions of each line of each source to `counts`."""
    lines = {}
    for line in path.read_text().splitlines():
        if line.startswith("SF:"):
            lines = counts.setdefault(line[3:], {})
        elif line.startswith("DA:"):
            number, count = line[3:].split(",")[:2]
            lines[int(number)] = lines.get(int(number), 0) + int(count)


def read_reasons():
    """Returns the entries of not_reached.txt by source: texts, each of the first line of a block."""
    reasons = {}
    for entry in NOT_REACHED.read_text().splitlines():
        if entry and not entry.startswith("#"):
            source, text, _ = entry.split(" | ")
            reasons.setdefault(source, []).append(text)
    return reasons


def block_at(source, text, counts):
    """Returns the lines that are not reached from the one that has `text`; none if that one is."""
    found = [number for number, line in enumerate((ROOT / source).read_text().splitlines(), 1) if text in line]
    if len(found) != 1:
        sys.exit(f"{NOT_REACHED.name}: found {len(found)} lines with '{text}' in {source}, expected one")
    end = found[0]
    while counts.get(end) == 0:
        end += 1
    if end == found[0]:
        print(f"{NOT_REACHED.name}: '{text}' of {source} is reached now, its entry can go", file=sys.stderr)
    return set(range(found[0], end))


def ranges_of(numbers):
    """Returns [1, 2, 3, 5] as "1-3, 5"."""
    ranges = []
    for number in sorted(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def main():
    floor, targets, folder, *names = sys.argv[1:]
    counts, parsers, handlers = {}, {}, {}  # the latter two in the order of the targets
    for line in pathlib.Path(targets).read_text().splitlines():
        name, _, _, of_parsers, of_handlers = line.split("|")
        path = pathlib.Path(folder) / f"{name}.lcov"
        if name not in names or not path.exists():
            continue
        read_counts(path, counts)
        parsers.update(dict.fromkeys(of_parsers.split()))
        handlers.update(dict.fromkeys(of_handlers.split()))
    reasons = read_reasons()
    low = 0
    print("| source | lines reached | named in not_reached.txt | others not reached |\n|---|---|---|---|")
    for source in [*parsers, *handlers]:
        lines = counts.get(str(ROOT / source), {})
        named = set().union(*(block_at(source, text, lines) for text in reasons.get(source, [])))
        missing = {number for number, count in lines.items() if count == 0} - named
        expected = len(lines) - len(named)
        percent = 100 * (expected - len(missing)) / expected if expected else 0
        is_low = source in parsers and percent < int(floor)
        low += is_low
        shown = f"{expected - len(missing)} of {expected} ({percent:.1f} %)"
        print(f"| {source} | {f'**{shown}**' if is_low else shown} | {len(named)} | {ranges_of(missing)} |")
    if low:
        sys.exit(f"coverage: found {low} parsers below {floor} %, expected none")


main()
