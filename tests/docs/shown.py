# SPDX-License-Identifier: Apache-2.0
"""Compares what a page shows of a program's output with what the program printed."""
import re


def normal(line):
    """A line without what differs between two runs: numbers with their units, dashes that stand for no number, spaces."""
    line = re.sub(r'\d+(?:[.,]\d+)*(?:e[-+]?\d+)?', '#', line)
    line = re.sub(r'# ?(ms|us|ns|[smhdkMG]|[KMG]iB|B|bytes)\b', '#', line)
    line = re.sub(r'(^|\s)[-+]?#+(?=\s|$|[,;:)])', r'\1#', re.sub('#+', '#', line))
    line = re.sub(r'(?<=\s)-(?=\s|$)', '#', line)
    return re.sub(r'\s+', ' ', line).strip()


def fits(shown, printed):
    """Whether a printed line is the shown one, `...` being anything."""
    pattern = '.*'.join(re.escape(normal(piece)) for piece in shown.split('...'))
    return re.fullmatch(pattern.replace(r'\ ', ' ?'), normal(printed)) is not None


def refreshed(shown, output):
    """The shown lines with the numbers that were printed. A line that was not printed in this order raises ValueError."""
    printed, position, fresh = output.splitlines(), 0, []
    for line in shown:
        if line.strip() in ('', '...'):
            fresh.append(line)
            continue
        for position in range(position, len(printed)):
            if fits(line, printed[position]):
                fresh.append(line if '...' in line else printed[position].rstrip())
                position += 1
                break
        else:
            raise ValueError(f'found no line like\n  {line}\nexpected one there in\n{output}')
    return fresh
