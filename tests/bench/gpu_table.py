#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The results of gpu.sh as a table of at most 60 lines, ours beside PyTorch's.

  gpu_table.py FOLDER    of results; also writes figures.json into it

A figure is `verified` or `unverified` as gpu.sh marked the part that measured it. Files that are
missing or end early cost their own rows and no others. Exit: 0; 2 arguments.
"""

import json
import pathlib
import sys

MOST_LINES, WIDTH = 60, 160
# Rows of `stretto-bench kernels`, whose peer has the same names.
KERNELS = ("fwd qkv gemm", "fwd proj gemm", "fwd fc1 gemm", "fwd fc2 gemm", "fwd head gemm",
           "fwd attention attention", "bwd attention attention_grad")


class Results:
    def __init__(self, folder):
        self.folder, self.figures = folder, []
        lines = self.text("parts.tsv").splitlines()
        # identity, status, name, seconds, mark, reason
        self.parts = [line.split("\t") for line in lines if line.count("\t") == 5]
        self.marks = {part[2]: part[4].split(" ")[0] for part in self.parts}

    def text(self, name):
        path = self.folder / name
        return path.read_text(errors="replace") if path.exists() else ""

    def load(self, name):
        try:
            found = json.loads(self.text(name + ".json"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def add(self, part, what, ours, unit, peers=(), more=None):
        """`peers`: name and figure of PyTorch's variants, of which the best one is compared; `more`:
        other figures of the same measurement."""
        peers = [(name, value) for name, value in peers if value]
        best = max((value for _, value in peers), default=None)
        self.figures.append({"part": part, "what": what, "value": ours, "unit": unit,
                             "mark": self.marks.get(part, "unverified"), "peers": dict(peers),
                             "of_peer": ours / best if ours and best else None,
                             "more": more or {}})


def rate(row):
    """TFLOP/s or GB/s."""
    if "seconds" not in row:
        return None, "TFLOP/s" if row.get("flops") else "GB/s"
    if row.get("flops"):
        return row["flops"] / row["seconds"] / 1e12, "TFLOP/s"
    return row["bytes"] / row["seconds"] / 1e9, "GB/s"


def add_kernels(results):
    peers = {}
    for row in results.load("peer.kernels").get("kernels", []):
        peers.setdefault(row["place"], []).append((row.get("backend", "torch"), rate(row)[0]))
    for part in ("kernels.own", "kernels.cudnn"):
        ours = results.load(part)
        limits = [("copy", ours["copy"]), ("product", ours["product"])] if "copy" in ours else []
        rows = [(row["place"], row) for row in ours.get("kernels", [])]
        for place, row in limits * (part == "kernels.own") + rows:
            if place in KERNELS or place in ("copy", "product"):
                value, unit = rate(row)
                results.add(part, place.replace("attention attention", "attention"), value, unit,
                            peers.get(place, []))


def add_steps(results):
    for peer, parts in (("peer.step.wide", ("step.wide.own", "step.wide.cudnn")),
                        ("peer.step.7b", ("step.7b", "step.7b.selective"))):
        variants = [(v["name"], v.get("tokens_per_second"))
                    for v in results.load(peer).get("variants", [])]
        for part in parts:
            ours = results.load(part)
            if "tokens_per_second" not in ours:
                continue
            layers = ours.get("work", {}).get("layers", "?")
            more = {"GiB": ours.get("memory_bytes", 0) / 2**30}
            if ours.get("mfu"):
                more["% MFU"] = 100 * ours["mfu"]
            results.add(part, f"{layers} layers, {ours.get('recompute')}", ours["tokens_per_second"],
                        "tokens/s", variants, more)


def add_overlaps(results):
    for part in results.marks:
        if not part.startswith("overlap."):
            continue
        for link in results.load(part).get("links", []):
            for schedule in link.get("schedules", []):
                more = {}
                if schedule.get("t_occupy"):
                    more["occupy"] = schedule["t_occupy"] / schedule["t_comp_sliced"]
                results.add(part, f"{schedule['schedule']}[{schedule['slices']}]",
                            schedule["t_overlap"] / schedule["t_ideal"], "of ideal", (), more)


def table(results):
    lines = results.text("machine.txt").splitlines()
    for _, status, name, seconds, mark, reason in results.parts:
        lines.append(f"{status:8}{name:24}{seconds:>5} s  {mark or '-'}{': ' + reason if reason else ''}")
    if results.figures:
        lines.append(f"{'figure':56}{'ours':>10} {'unit':9}{'of PyTorch':>10}  more, PyTorch")
    for f in results.figures:
        value = f"{f['value']:.4g}" if f["value"] is not None else "failed"
        against = f"{f['of_peer']:.3f}" if f["of_peer"] else ""
        peers = ", ".join([f"{value:.4g} {name}" for name, value in f["more"].items()] +
                          [f"{name} {value:.4g}" for name, value in f["peers"].items()])
        lines.append(f"{f['mark']:11}{f['part']:20} {f['what'][:24]:24}{value:>10} {f['unit']:9}"
                     f"{against:>10}  {peers}")
    if len(lines) > MOST_LINES:
        left = len(lines) - MOST_LINES + 1
        lines[MOST_LINES - 1:] = [f"{left} more lines: figures.json of results.tar.gz has all"]
    return [line[:WIDTH].rstrip() for line in lines]


def main():
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).is_dir():
        print(f"usage: gpu_table.py FOLDER\nfound {sys.argv[1:]}, expected one folder",
              file=sys.stderr)
        sys.exit(2)
    results = Results(pathlib.Path(sys.argv[1]))
    for add in (add_kernels, add_steps, add_overlaps):
        add(results)
    (results.folder / "figures.json").write_text(json.dumps(results.figures, indent=1) + "\n")
    print("\n".join(table(results)))


if __name__ == "__main__":
    main()
