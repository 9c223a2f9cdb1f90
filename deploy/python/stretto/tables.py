# SPDX-License-Identifier: Apache-2.0
"""Steps, ledgers and traces as tables: a list of dicts with one set of keys, which pandas takes."""
import dataclasses
import functools
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stretto.errors import MissingLibrary
from stretto.v1alpha1.job_pb2 import Ledger, StepReport, TraceProgram, TraceStep

if TYPE_CHECKING:
    import pandas

_PARTS = {number: name.lower() for name, number in Ledger.Part.items() if number != 0}


class Table(list[dict[str, Any]]):
    """Rows with the same keys. A value that is not known is None."""

    def __init__(self, columns: Iterable[str], rows: Iterable[dict[str, Any]] = ()) -> None:
        super().__init__(rows)
        self.columns = list(columns)

    def to_pandas(self) -> "pandas.DataFrame":
        """Errors: MissingLibrary."""
        try:
            import pandas
        except ImportError:
            raise MissingLibrary("Table.to_pandas: found no pandas, expected it to be installed: "
                                 "pip install pandas") from None
        return pandas.DataFrame(list(self), columns=self.columns)


def overlap_ratio(ledger: Ledger) -> float | None:
    """The share of communication that was hidden; None if there was none."""
    if ledger.communication_seconds <= 0:
        return None
    return ledger.hidden_seconds / ledger.communication_seconds


def preempted_seconds(ledger: Ledger) -> float | None:
    """For how long a thread was ready to run and had no CPU: beside the parts, and none of them.
    None if the kernel of the worker does not say."""
    return ledger.preempted_seconds if ledger.HasField("preempted_seconds") else None


def step_row(step: StepReport) -> dict[str, Any]:
    """A step as `stretto job metrics` has it. The coordinator keeps the ledgers of recent steps."""
    row: dict[str, Any] = {
        "step": step.step, "loss": step.loss, "grad_norm": step.grad_norm,
        "learning_rate": step.learning_rate, "tokens": step.tokens,
        "wall_seconds": step.wall_seconds}
    entries = step.ledger.entries
    for number, name in _PARTS.items():
        # Added in turn, as the command does: since Python 3.12 sum() has other last bits.
        row[f"{name}_seconds"] = functools.reduce(
            operator.add, (entry.seconds for entry in entries if entry.part == number),
            0) if entries else None
    row["overlap_ratio"] = overlap_ratio(step.ledger)
    held_out = step.evaluation if step.HasField("evaluation") else None
    row["held_out_loss"] = held_out.loss if held_out else None
    row["held_out_perplexity"] = held_out.perplexity if held_out else None
    row["preempted_seconds"] = preempted_seconds(step.ledger)
    return row


def metrics_table(steps: Iterable[StepReport]) -> Table:
    return Table(step_row(StepReport()), map(step_row, steps))


def ledger_table(ledger: Ledger) -> Table:
    """One row for each part, group and phase; the seconds sum to the wall time.
    `preempted_seconds` is beside them."""
    return Table(("part", "group", "phase", "seconds", "share"), (
        {"part": _PARTS.get(entry.part, str(entry.part)), "group": entry.group,
         "phase": entry.phase, "seconds": entry.seconds,
         "share": entry.seconds / ledger.wall_seconds if ledger.wall_seconds > 0 else None}
        for entry in ledger.entries))


@dataclasses.dataclass
class RankTrace:
    """The operations of a rank, and when each of them ran in the steps that it keeps."""

    rank: int
    program: TraceProgram = dataclasses.field(default_factory=TraceProgram)
    steps: list[TraceStep] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)

    def add(self, record: Any) -> None:
        """Merges a record of the stream, in which large messages come in several pieces."""
        kind = record.WhichOneof("record")
        if kind == "program":
            self.program.MergeFrom(record.program)
        elif kind == "warning":
            self.warnings.append(record.warning)
        elif self.steps and self.steps[-1].step == record.step.step:
            self.steps[-1].MergeFrom(record.step)
        else:
            self.steps.append(record.step)


def trace_table(ranks: Iterable[RankTrace]) -> Table:
    """One row for each operation of each step. `begin_ns` counts from the begin of the step, whose
    own begin on the machine's monotonic clock is `step_begin_ns`."""
    columns = ("rank", "step", "operation", "lane", "kind", "label", "phase", "group", "shape",
               "step_begin_ns", "begin_ns", "duration_ns")
    table = Table(columns)
    for rank in ranks:
        operations, lanes = rank.program.operations, rank.program.lanes
        shapes = rank.program.shapes or [""]  # none in recordings of older versions
        for step in rank.steps:
            times = zip(step.operations.begin_nanoseconds, step.operations.duration_nanoseconds)
            for number, (operation, (begin, duration)) in enumerate(zip(operations, times)):
                table.append(dict(zip(columns, (
                    rank.rank, step.step, number, lanes[operation.lane], operation.kind,
                    operation.label, operation.phase, operation.group, shapes[operation.shape],
                    step.begin_nanoseconds, begin, duration))))
    return table
