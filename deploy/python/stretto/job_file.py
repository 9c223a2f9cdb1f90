# SPDX-License-Identifier: Apache-2.0
"""A job to submit: from a job file, from its text, or from a dict of the same form."""
import dataclasses
import os
import pathlib
from collections.abc import Mapping
from typing import Any

from stretto.errors import CallError, InvalidInput
from stretto.fill import describe, fill
from stretto.v1alpha1.job_pb2 import JobSpec
from stretto.yaml_text import Document, parse


@dataclasses.dataclass
class JobFile:
    """A name and a spec. The fields of the spec are those of docs/reference/job-spec.md."""

    name: str
    spec: JobSpec
    document: Document | None = None  # where it came from

    def locate(self, error: CallError) -> CallError:
        """The error with the lines of the fields that the coordinator refuses."""
        if self.document is None or not error.violations:
            return error
        violations = tuple(
            dataclasses.replace(one, place=self.document.place(self._path(one.field)))
            for one in error.violations)
        located = type(error)(error.message, error.reason, violations)
        located.code = error.code
        return located

    @staticmethod
    def _path(field: str) -> str:
        if field == "job_id":
            return "name"
        return field.removeprefix("job.").removeprefix("spec.")


def _make(values: Any, document: Document | None) -> JobFile:
    def place(path: str) -> str:
        return f"{document.place(path)}: " if document else ""

    if not isinstance(values, Mapping):
        raise InvalidInput(f"{place('')}found {describe(values)}, expected the fields of a job")
    rest = dict(values)
    name = rest.pop("name", "")
    if not isinstance(name, str):
        raise InvalidInput(f"{place('name')}name: found {describe(name)}, expected a string")
    return JobFile(name, fill(JobSpec(), rest, place), document)


def parse_job(text: str, file: str = "job") -> JobFile:
    """Reads the text of a job file; `file` is used in errors. Errors: InvalidInput with the place
    in the text, for what is no job file. The coordinator makes all other checks."""
    document = parse(text, file)
    return _make(document.values, document)


def read_job(job: "JobFile | Mapping[str, Any] | str | os.PathLike[str]") -> JobFile:
    """Takes a dict, or the path of a job file. Errors: as parse_job, and for a file that cannot be
    read."""
    if isinstance(job, JobFile):
        return job
    if isinstance(job, Mapping):
        return _make(job, None)
    if not isinstance(job, (str, os.PathLike)):
        raise InvalidInput(f"job: found {describe(job)}, expected a dict, the path of a job file, "
                           "or what parse_job returns")
    try:
        return parse_job(pathlib.Path(job).read_text("utf-8"), str(job))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{job}: found byte {error.object[error.start]:#04x} at {error.start}, "
                           "expected UTF-8") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(f"job file {str(job)[:200]!r}: found {error}, expected a file that can "
                           "be read; parse_job takes text") from None
