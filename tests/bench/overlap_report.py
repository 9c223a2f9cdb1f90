#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts what `stretto-bench overlap` and its peer measured into one JSON file and prints a table.

Adds to the object of `stretto-bench overlap` the peer's, as "peer", to each schedule its comparison
with the peer's fastest variant, and "figures" of a schedule that weaves (overlap_figures.py). Exit 1
when a collective is so small that the link's burst matters.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys

import disturbed
import overlap_figures

# Of a collective of a layer. The token bucket can fill up before each of them.
LEAST_BURSTS = 20


def cpu_name():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")),
                "unknown")


def merge_peers(parts):
    """One report from those of several runs: medians over all of their samples."""
    reports = [part for part in parts if "skipped" not in part]
    if not reports:
        return parts[0] if parts else None
    merged = dict(reports[0])
    merged["variants"] = []
    for variants in zip(*(report["variants"] for report in reports)):
        variant = dict(variants[0])
        if any("skipped" in v for v in variants):
            merged["variants"].append(next(v for v in variants if "skipped" in v))
            continue
        tokens = variant["tokens_per_second"] * variant["t_step"]
        variant["samples"] = [row for v in variants for row in v["samples"]]
        columns = [statistics.median(column) for column in zip(*variant["samples"])]
        variant.update(zip(("t_forward", "t_backward", "t_step", "t_optimizer"), columns))
        variant["tokens_per_second"] = tokens / variant["t_step"]
        merged["variants"].append(variant)
    return merged


def compare(result, peer, is_disturbed):
    """A schedule's "peer": the peer's fastest variant, and how many times its time ours fits."""
    if peer is None or "skipped" in peer:
        return peer
    best = min((v for v in peer["variants"] if "skipped" not in v), key=lambda v: v["t_step"])
    return {"name": f"torch {peer['version']} {best['name']}", "t_step": best["t_step"],
            "speed_up": None if is_disturbed else best["t_step"] / result["t_overlap"]}


def table(report):
    head = ("schedule", "sequences", "slices", "splits", "t_overlap", "/ideal", "/pairs", "/serial",
            "tax", "plan/bound", "hidden fwd", "(ceiling)", "hidden bwd", "(ceiling)", "paired", "(ceiling)",
            "simulated/t", "slowdown", "activations", "tokens/s", "peer/t")
    rows = [head]

    def ratio(over, under=1, form=".3f"):
        return "-" if report["disturbed"] or over is None else format(over / under, form)

    for s in report["schedules"]:
        pairs = s["t_ideal_pairs"] if s["mixes_phases"] else None
        peer, t = s["peer"] or {}, s["t_overlap"]
        rows.append((
            s["schedule"] + " sp" * s["sequence_parallel"] +
            f" d{s['defer_wgrads']}" * (s["defer_wgrads"] > 0) +
            (f" {s['plan']}" if s["plan"] else ""), f"{s['micro_batches']} x {s['batch']}",
            str(s["slices"]), str(s["splits"]), f"{t:.3f} s", ratio(t, s["t_ideal"]),
            ratio(t if pairs else None, pairs), ratio(t, s["t_serial"]),
            ratio(s["t_comp_sliced"], s["t_comp"]),
            # Of a search, so a disturbed run does not matter.
            format(s["plan_over_bound"], ".3f") if s["plan_over_bound"] else "-",
            ratio(s["hidden_forward"], form=".1%"),
            ratio(s["hidden_ceiling_forward"], form=".1%"),
            ratio(s["hidden_backward"], form=".1%"),
            ratio(s["hidden_ceiling_backward"], form=".1%"), ratio(s["hidden_paired"], form=".1%"),
            ratio(s["hidden_ceiling_paired"], form=".1%"), ratio(s["t_simulated"], t),
            ratio(s["slowdown"], form=".2f"),
            f"{s['activations'] / s['activations_serial']:.2f}",
            ratio(s["tokens_per_second"], form=".0f"),
            ratio(peer.get("speed_up"))))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join("  ".join(cell.ljust(w) if i == 0 else cell.rjust(w)
                               for i, (cell, w) in enumerate(zip(row, widths))) for row in rows)


def print_report(report):
    print(f"{report['gbps']:g} Gbit/s, {report['dtype']}, wire {report['wire']}, "
          f"{report['repeats']} rounds, {report['wire_bytes'] / 1e6:.1f} MB a step and direction, "
          f"at least {report['least_collective_bytes'] / 1e6:.2f} MB a layer's collective")
    if report["runs_left_out"]:
        print(f"{report['runs_left_out']} runs that other work disturbed were repeated")
    for refused in report["refused"]:
        print(f"not measured: {refused}")
    if report["schedules"]:
        s = report["schedules"][0]
        print(f"t_comp {s['t_comp']:.3f} s   t_comm {s['t_comm']:.3f} s "
              f"(cpu {s['comm_cpu_seconds']:.3f} s)   t_serial {s['t_serial']:.3f} s   "
              f"t_ideal_step {s['t_ideal_step']:.3f} s   t_ideal_phase {s['t_ideal_phase']:.3f} s   "
              f"t_ideal_pairs {s['t_ideal_pairs']:.3f} s")
        print(table(report))
    if report["figures"]:
        print(overlap_figures.text(report["figures"], s["t_comm"] / s["t_comp"]))
    if disturbed.programs(report):
        print(disturbed.text(report))
    peer = report["peer"]
    if peer is None:
        return
    if "skipped" in peer:
        print(f"peer skipped: {peer['skipped']}")
        return
    for v in peer["variants"]:
        print(f"torch {peer['version']} {v['name']}: " + (v["skipped"] if "skipped" in v else
              f"{v['t_step']:.3f} s, {v['tokens_per_second']:.0f} tokens/s, "
              f"loss {v['loss_first']:.4f} at first"))
    if report["schedules"]:
        print(f"our loss at first: {report['schedules'][0]['loss_first']:.4f} "
              f"(other weights; both near {peer['loss_expected_first']:.3f})")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overlap", type=pathlib.Path, help="JSON of stretto-bench overlap")
    parser.add_argument("peers", type=pathlib.Path, nargs="*", help="JSON files of torch_peer.py")
    parser.add_argument("--burst", type=int, required=True, help="bytes of the link's token bucket")
    parser.add_argument("--load", type=float, default=0, help="load average before the run")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    o = parser.parse_args()
    report = json.loads(o.overlap.read_text())
    report["machine"] = {"cpu": cpu_name(), "cores": os.cpu_count(), "load_before": o.load}
    report["peer"] = merge_peers([json.loads(p.read_text()) for p in o.peers if p.exists()])
    for v in (report["peer"] or {}).get("variants", []):
        if "skipped" not in v:
            disturbed.add(report, v["name"], [row[2] for row in v["samples"]])
    for result in report["schedules"]:
        result["peer"] = compare(result, report["peer"], bool(disturbed.programs(report)))
    report["figures"] = overlap_figures.figures(report)
    if report["least_collective_bytes"] < LEAST_BURSTS * o.burst:
        report["errors"].append(
            f"a collective of a layer sends {report['least_collective_bytes']} bytes, expected at "
            f"least {LEAST_BURSTS} times the link's burst of {o.burst}: raise --sequence or "
            f"--batch, or lower --burst-kb")
        print(f"error: {report['errors'][-1]}", file=sys.stderr)
    o.out.write_text(json.dumps(report, indent=2) + "\n")
    print_report(report)
    return 1 if report["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
