# SPDX-License-Identifier: Apache-2.0
"""A job to submit: from a job file, from its text, or from a dict of the same form."""
import dataclasses
import os
import pathlib
from collections.abc import Collection, Mapping
from typing import Any

from stretto.errors import CallError, InvalidInput
from stretto.fill import describe, fill
from stretto.v1alpha1.job_pb2 import Job, JobSpec
from stretto.v1alpha1.plan_pb2 import DryRun
from stretto.yaml_text import Document, parse


@dataclasses.dataclass
class JobFile:
    """A name and a spec. The fields of the spec are those of docs/reference/job-spec.md."""

    name: str
    spec: JobSpec
    document: Document | None = None  # where it came from
    section: str = ""  # of the spec in the document: "", "spec." or "job.spec."

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

    def _path(self, field: str) -> str:
        if field == "job_id":
            return self.section.removesuffix("spec.") + "name"
        return self.section + field.removeprefix("job.").removeprefix("spec.")


class _Reader:
    """Finds name and spec in any of the three forms of a job: the fields of a spec with a name, a
    Job as `stretto job get` prints it, and a DryRun as `stretto job submit --dry-run` does."""

    def __init__(self, values: Any, document: Document | None) -> None:
        self.values = values
        self.document = document
        self.section = ""

    def place(self, path: str) -> str:
        return f"{self.document.place(self.section + path)}: " if self.document else ""

    def unwrap(self, field: str, known: Collection[str]) -> None:
        """Enters a field of a printed message. The others are output only: only their names are
        checked."""
        for key in self.values:
            if key not in known:
                raise InvalidInput(f'{self.place(str(key))}unknown field "{key}"; expected one of: '
                                   + ", ".join(known))
        self.values = self.values[field]
        self.section += field + "."

    def name(self, prefix: str) -> str:
        self.values = dict(self.values)
        name = self.values.pop("name", "")
        if not isinstance(name, str):
            raise InvalidInput(f"{self.place('name')}name: found {describe(name)}, expected a "
                               "string")
        return name.removeprefix(prefix)

    def read(self) -> JobFile:
        if isinstance(self.values, Mapping) and "job" in self.values:
            self.unwrap("job", DryRun.DESCRIPTOR.fields_by_name)
        if not isinstance(self.values, Mapping):
            raise InvalidInput(f"{self.place('')}found {describe(self.values)}, expected the "
                               "fields of a job")
        if "spec" in self.values:
            name = self.name("jobs/")
            self.unwrap("spec", Job.DESCRIPTOR.fields_by_name)
        else:
            name = self.name("")
        spec = fill(JobSpec(), self.values, self.place)
        return JobFile(name, spec, self.document, self.section)


def parse_job(text: str, file: str = "job") -> JobFile:
    """Reads the text of a job file; `file` is used in errors. Errors: InvalidInput with the place
    in the text, for what is no job file. The coordinator makes all other checks."""
    document = parse(text, file)
    return _Reader(document.values, document).read()


def read_job(job: "JobFile | Mapping[str, Any] | str | os.PathLike[str]") -> JobFile:
    """Takes a dict, or the path of a job file. Errors: as parse_job, and for a file that cannot be
    read."""
    if isinstance(job, JobFile):
        return job
    if isinstance(job, Mapping):
        return _Reader(job, None).read()
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
