#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how far predicted steps are from measured ones, over JSON files of overlap_link.sh.

A row is a schedule of a file. Its first error is that of the prediction in advance, t_simulated /
t_overlap - 1; that of its computation alone, t_comp_simulated / t_comp_sliced - 1, shows by how much
the machine's speed has changed since the calibration. The other two are the same with computations
that were measured between the programs of the run. Files of disturbed runs, and rows without a
prediction, are named and left out. Below the rows are, of each error, the median, the 95th
percentile and the maximum of the absolute values, and the mean of the signed ones. The regret of a
file is by how much the schedule with the shortest prediction in advance is slower than the fastest
one: what a planner that trusts the predictions loses. Exit 1 when nothing is left.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys

ERRORS = {  # what is predicted, and what was measured
    "in advance": ("t_simulated", "t_overlap"),
    "its computation alone": ("t_comp_simulated", "t_comp_sliced"),
    "with interleaved computations": ("t_simulated_interleaved", "t_overlap"),
    "these alone": ("t_comp_simulated_interleaved", "t_comp_sliced"),
}


def rows_of(path, report):
    """(label, errors by what they are of) of each schedule, the regret of the file, which is None
    without rows, and a sentence for each schedule that is left out."""
    work = report["work"]
    name = f"{work['family'] or work['model']} {report['gbps']:g} Gbit/s"
    if report["disturbed"]:
        return [], None, [f"{path}: left out: the run was disturbed"]
    rows, left_out, known = [], [], []
    for s in report["schedules"]:
        label = (f"{name} {s['micro_batches']} x {s['batch']} {s['schedule']} slices {s['slices']}"
                 f"{' ' + s['plan'] if s['plan'] else ''}")
        if s["t_simulated"] is None:
            left_out.append(f"{path}: left out: {label} has no prediction")
            continue
        known.append(s)
        # Reports before 2026-11-29 have the first alone.
        rows.append((label, {what: s[predicted] / s[measured] - 1
                             for what, (predicted, measured) in ERRORS.items()
                             if s.get(predicted) is not None}))
    return rows, regret_of(known), left_out


def regret_of(schedules):
    """(name of the schedule that the predictions choose, its time over the fastest one's, less 1)."""
    if not schedules:
        return None
    chosen = min(schedules, key=lambda s: s["t_simulated"])
    return chosen["schedule"], chosen["t_overlap"] / min(s["t_overlap"] for s in schedules) - 1


def percentile(values, share):
    """The smallest value that at least this share of the values does not exceed."""
    values = sorted(values)
    return values[math.ceil(len(values) * share) - 1]


def statistics_of(errors):
    """The median, the 95th percentile and the maximum of the absolute errors, and the mean of the
    signed ones."""
    sizes = [abs(error) for error in errors]
    return {"median": statistics.median(sizes), "p95": percentile(sizes, 0.95), "max": max(sizes),
            "signed mean": statistics.mean(errors)}


def line_of(what, errors):
    of = statistics_of(errors)
    return (f"{what}, {len(errors)} rows: median {of['median']:.1%}, p95 {of['p95']:.1%}, "
            f"max {of['max']:.1%}, signed mean {of['signed mean']:+.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    rows, regrets, left_out = [], [], []
    for path in parser.parse_args().files:
        found, regret, why = rows_of(path, json.loads(path.read_text()))
        rows += found
        left_out += why
        if regret:
            regrets.append((path, *regret))
    for label, errors in rows:
        print("  ".join(f"{errors[what]:+7.1%}" if what in errors else "      -"
                        for what in ERRORS) + f"  {label}")
    for path, chosen, regret in regrets:
        print(f"{path}: the predictions choose {chosen}, {regret:.1%} slower than the fastest")
    for why in left_out:
        print(why)
    if not rows:
        print("no row is left", file=sys.stderr)
        return 1
    for what in ERRORS:
        errors = [errors[what] for _, errors in rows if what in errors]
        if errors:
            print(line_of(what, errors))
    print(f"regret, {len(regrets)} runs: median "
          f"{statistics.median(regret for *_, regret in regrets):.1%}, max "
          f"{max(regret for *_, regret in regrets):.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
