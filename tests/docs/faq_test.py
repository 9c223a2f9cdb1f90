#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The messages that docs/FAQ.md explains are messages of the code: each piece between its `...`s is in a string there. What it
advises has the flags of today: `-o` is the format of what is printed, and never a file."""
import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]


def strings():
    """Every string literal of the programs, adjacent ones joined, escapes undone."""
    text = []
    for folder in ('coordinator', 'worker', 'proto/base', 'proto/spec'):
        for path in sorted((root / folder).rglob('*')):
            if path.suffix in ('.cc', '.h'):
                source = re.sub(r'"\s*\n\s*"', '', path.read_text())
                text += re.findall(r'"((?:[^"\\\n]|\\.)*)"', source)
    return '\n'.join(text).replace('\\"', '"')


def main():
    known, unknown, checked = strings(), [], 0
    for line in (root / 'docs/FAQ.md').read_text().splitlines():
        for code in re.findall(r'`(?:[^`]* )?-o(?![ =](?:json|yaml|table)\b)[^`]*`', line):
            if not code.startswith('`ps '):
                unknown.append(f'docs/FAQ.md: found {code}, expected a format behind -o, or --output for a file: {line[:80]}')
        if not line.startswith('| ') or line.startswith(('| message', '| reason', '| condition')):
            continue
        message = line.split(' | ')[0]
        for code in re.findall(r'`([^`]+)`', message):
            for piece in code.split('...'):
                if not piece.strip():
                    continue
                checked += 1
                if piece not in known:
                    unknown.append(f'docs/FAQ.md: found the message "{piece}", expected one of the code: {line[:80]}')
    print('\n'.join(unknown) or f'{checked} pieces of messages found in the code')
    if checked < 30:
        sys.exit(f'docs/FAQ.md: found {checked} messages, expected at least 30: has the table another form?')
    sys.exit(1 if unknown else 0)


main()
