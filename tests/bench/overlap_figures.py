# SPDX-License-Identifier: Apache-2.0
"""The figures of a run of overlap_link.sh that has a schedule that weaves, beside what they must be
and what we aim at. They are computed from the report's own rows, and empty if the run was disturbed.
The one that compares with a peer is empty if the peer was.
"""

import disturbed
import prediction_errors

ALONE = "micro-batches of one sequence, x about 1"
WINDOW = "x about 1"
ELSEWHERE = "x about 0.33 and 0.67"
ANY = "every x"


def fastest(rows):
    return min(rows, key=lambda s: s["t_overlap"], default=None)


def over(row, under, key="t_overlap"):
    """How many times the row's time fits into that of another, None without one."""
    return under and under[key] / row["t_overlap"]


def less_one(ratio):
    return None if ratio is None else ratio - 1


def weaving(schedules):
    """The rows of schedules that weave: the ones that have a plan."""
    return [s for s in schedules if s["plan"]]


def segments_of(row):
    """What the words of a plan mean in a step: plans can be compared where it is the same."""
    return [row[key] for key in ("schedule", "micro_batches", "batch", "slices", "splits",
                                 "sequence_parallel", "defer_wgrads")]


def plans_compared(woven):
    """How much shorter the step is in the fastest found plan than in the plan with barriers of the
    same segments."""
    barriers = [s for s in woven if s["plan"] == "blocks"]

    def partner(row):
        return fastest([s for s in barriers if segments_of(s) == segments_of(row)])

    found = fastest([s for s in woven if s["plan"] == "found" and partner(s)])
    return found and less_one(over(found, partner(found)))


def peer_async(report):
    """The fastest division of the variant."""
    if disturbed.of_peer(report):
        return None
    variants = (report["peer"] or {}).get("variants", [])
    return min((v for v in variants if v["name"].split(",")[0] == "async" and "skipped" not in v),
               key=lambda v: v["t_step"], default=None)


def row(name, value, must, aim, where, percent=False):
    return {"figure": name, "value": value, "must": must, "aim": aim, "where": where,
            "percent": percent}


def of_woven(report, best):
    """The rows of the fastest step that is woven."""
    schedules, layers = report["schedules"], report["work"]["layers"]

    def named(name):
        return fastest([s for s in schedules if s["schedule"] == name])

    name = f"{best['schedule']}, {best['plan']} plan"
    others = fastest([s for s in schedules if not s["plan"]])
    ceiling = best["hidden_ceiling_paired"]
    return [
        row(f"{name} / t_ideal_pairs", best["t_overlap"] / best["t_ideal_pairs"], "at most 1.12",
            "1.06", ALONE),
        row("speed-up over megatron_async", over(best, named("megatron_async")), "at least 1.35",
            "1.55", ALONE),
        row("speed-up over megatron_sync (t_serial)", best["t_serial"] / best["t_overlap"], "", "",
            ANY),
        row("faster than the best domino_row", less_one(over(best, named("domino_row"))),
            "at least 5 %", "9 %", WINDOW, True),
        row("behind the best of the other schedules",
            others and best["t_overlap"] / others["t_overlap"] - 1, "at most 2 %", "1 %", ELSEWHERE,
            True),
        row("hidden in paired cells", best["hidden_paired"], "at least 90 %", "97 %",
            "a ceiling of 99 % or more; it is " + (f"{ceiling:.1%}" if ceiling else "unknown"),
            True),
        row("speed-up over PyTorch, async", over(best, peer_async(report), "t_step"), "above 1",
            "1.5 at x about 1", ANY),
        row("activations / megatron_sync's",
            max(s["activations"] / s["activations_serial"] for s in weaving(schedules)),
            f"at most {1 + 2 / layers:.3f}", "1.05 with 24 layers",
            f"{layers} layers, the most of all plans"),
    ]


def figures(report):
    """The figures, as rows; none without a schedule that weaves."""
    woven = weaving(report["schedules"])
    if not woven:
        return []
    rows = of_woven(report, fastest(woven))
    rows.append(row("found plan faster than blocks plan, which has barriers",
                    plans_compared(woven), "at least 0 %", "3 % at x about 1", ANY, True))
    errors = [errors["in advance"] for _, errors in prediction_errors.rows_of("", report)[0]]
    spread = prediction_errors.statistics_of(errors) if errors else {}
    for key, must, aim in (("median", "2 %", "1 %"), ("p95", "5 %", "3 %"), ("max", "8 %", "5 %")):
        rows.append(row(f"errors of {len(errors)} predictions, {key}", spread.get(key),
                        f"at most {must}", aim, ANY, True))
    for each in rows:
        if report["disturbed"]:
            each["value"] = None
    return rows


def text(rows, x):
    """A table of the figures; x is that of the run."""
    lines = [("figure", "this run", "must", "aim", "where")]
    for each in rows:
        value = each["value"]
        shown = "-" if value is None else format(value, ".1%" if each["percent"] else ".3f")
        lines.append((each["figure"], shown, each["must"], each["aim"], each["where"]))
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join([f"figures at x = {x:.2f}"] + [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths)).rstrip() for line in lines])
