#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pictures of the documents, of timelines and of the page have the colours of coordinator/cli/trace/palette.h. Greys are free."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = [*(ROOT / "docs/pictures").glob("*.svg"), *(ROOT / "tests/golden/timeline").glob("*.svg"),
            *(ROOT / "coordinator/page/files").glob("*.svg"), *(ROOT / "coordinator/page/files").glob("*.css")]
GREY = 40  # the most by which channels of a grey differ


def channels(color):
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    return [int(digits[i:i + 2], 16) for i in (0, 2, 4)]


def colors(text):
    """Colours that are none of the greys."""
    found = set(re.findall(r"#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{3})\b", text))
    return {color.lower() for color in found if max(channels(color)) - min(channels(color)) > GREY}


def main():
    palette = colors((ROOT / "coordinator/cli/trace/palette.h").read_text())
    assert len(palette) >= 20, palette
    assert colors("fill: #abc; #c2412d; #22272d") == {"#c2412d"}
    faults = [f"{path.relative_to(ROOT)}: found {color}, expected a colour of coordinator/cli/trace/palette.h"
              for path in PICTURES for color in sorted(colors(path.read_text()) - palette)]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults or len(PICTURES) < 6 else 0


if __name__ == "__main__":
    sys.exit(main())
