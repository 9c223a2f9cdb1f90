# SPDX-License-Identifier: Apache-2.0
"""Metrics of a job for TensorBoard and for Weights & Biases, written by their own libraries, offline.
"""
import pathlib
from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format

from stretto.errors import InvalidInput, MissingLibrary
from stretto.tables import step_row
from stretto.v1alpha1.job_pb2 import Job, StepReport


def tag(column: str) -> str:
    """The name of a column of the metrics, in the groups in which both tools show panels."""
    if column.startswith("held_out_"):
        return "held_out/" + column.removeprefix("held_out_")
    if column.endswith("_seconds") or column == "overlap_ratio":
        return "time/" + column
    return "train/" + column


def scalars(step: StepReport) -> dict[str, Any]:
    """The values of a step that are known, by tag."""
    return {tag(column): value for column, value in step_row(step).items()
            if value is not None and column != "step"}


def _name(job: Job) -> str:
    return job.name.removeprefix("jobs/")


def write_tensorboard(job: Job, steps: Iterable[StepReport], folder: str | pathlib.Path
                      ) -> pathlib.Path:
    """Writes event files into FOLDER/JOB, so that jobs are runs of one TensorBoard, and returns
    that folder. Each value has the time at which its step ended. Errors: MissingLibrary;
    InvalidInput if there are event files already, which would be shown twice."""
    try:
        from tensorboard.summary import Writer
    except ImportError as error:
        raise MissingLibrary(f"TensorBoard: found {error}, expected the package tensorboard: "
                             "pip install tensorboard") from None
    run = pathlib.Path(folder) / _name(job)
    if any(run.glob("events.out.tfevents.*")):
        raise InvalidInput(f"{run}: found event files, expected none; remove them or choose "
                           "another folder")
    writer = Writer(str(run))
    try:
        for step in steps:
            when = step.end_time.seconds + step.end_time.nanos / 1e9
            for name, value in scalars(step).items():
                writer.add_scalar(name, value, step.step, wall_time=when)
            writer.flush()
    finally:
        writer.close()
    return run


def write_wandb(job: Job, steps: Iterable[StepReport], folder: str | pathlib.Path,
                project: str = "stretto") -> pathlib.Path:
    """Writes an offline run into FOLDER/wandb and returns its folder, which `wandb sync` uploads.
    Its name is the job's, its id the job's uid, so another upload replaces nothing else; its
    configuration is the spec. W&B's own process writes the file, and has written all of it when
    this process ends, or after `wandb.teardown()`. Errors: MissingLibrary; InvalidInput if the
    library refuses."""
    try:
        import wandb
    except ImportError as error:
        raise MissingLibrary(f"W&B: found {error}, expected the package wandb: "
                             "pip install wandb") from None
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    config = json_format.MessageToDict(job.spec, preserving_proto_field_name=True)
    # The library's own notices and its watch on this machine have nothing to do with the job.
    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True,
                              x_disable_meta=True, save_code=False)
    run = wandb.init(mode="offline", dir=str(folder), project=project, name=_name(job),
                     id=job.uid, config=config, settings=settings)
    try:
        for step in steps:
            run.log(scalars(step), step=step.step)
        return pathlib.Path(run.settings.sync_dir)
    finally:
        run.finish()
