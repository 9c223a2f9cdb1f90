#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how far predicted steps are from measured ones, over JSON files of overlap_link.sh.

A row is a schedule of a file; its error is t_simulated / t_overlap - 1. Files of disturbed runs,
and rows without a prediction, are named and left out. Below the rows are the median, the 95th
percentile and the maximum of the absolute errors, and the mean of the signed ones. Exit 1 when
nothing is left. The last line has the same of the computation alone, t_comp_simulated /
t_comp_sliced - 1: by how much the machine's speed has changed since the calibration.
"""

import argparse
import json
import math
import pathlib
import statistics
import sys


def rows_of(path, report):
    """(label, error, error of computation alone) of each schedule, and a sentence for each that is
    left out."""
    work = report["work"]
    name = f"{work['family'] or work['model']} {report['gbps']:g} Gbit/s"
    if report["disturbed"]:
        return [], [f"{path}: left out: the run was disturbed"]
    rows, left_out = [], []
    for s in report["schedules"]:
        label = (f"{name} {s['micro_batches']} x {s['batch']} {s['schedule']} slices {s['slices']}"
                 f"{' ' + s['plan'] if s['plan'] else ''}")
        if s["t_simulated"] is None:
            left_out.append(f"{path}: left out: {label} has no prediction")
        else:
            alone = s.get("t_comp_simulated")  # not in reports before 2026-11-29
            rows.append((label, s["t_simulated"] / s["t_overlap"] - 1,
                         alone and alone / s["t_comp_sliced"] - 1))
    return rows, left_out


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
    return (f"{what}: median {of['median']:.1%}, p95 {of['p95']:.1%}, max {of['max']:.1%}, "
            f"signed mean {of['signed mean']:+.1%}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    rows, left_out = [], []
    for path in parser.parse_args().files:
        found, why = rows_of(path, json.loads(path.read_text()))
        rows += found
        left_out += why
    for label, error, alone in rows:
        print(f"{error:+7.1%}  {label}" +
              ("" if alone is None else f", computation alone {alone:+.1%}"))
    for why in left_out:
        print(why)
    if not rows:
        print("no row is left", file=sys.stderr)
        return 1
    print(line_of(f"{len(rows)} rows", [error for _, error, _ in rows]))
    computation = [alone for _, _, alone in rows if alone is not None]
    if computation:
        print(line_of("computation alone", computation))
    return 0


if __name__ == "__main__":
    sys.exit(main())
