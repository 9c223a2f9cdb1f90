# SPDX-License-Identifier: Apache-2.0
"""Whether memory suffices for a new job. The program `stretto` compares it in a dry run, so that the
rule is in one place. It is the one that the client's argument `program` names, else that of
STRETTO_PROGRAM, else `stretto` on PATH or beside this Python.
"""
import json
import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from stretto.errors import InvalidArgument, Violation
from stretto.fill import fill, values_of
from stretto.v1alpha1.job_pb2 import CreateJobRequest
from stretto.v1alpha1.plan_pb2 import DryRun

SECONDS = 15.0  # that the program has
_FIELDS = ("fits", "shortages", "memory_not_compared")  # of the document that are read


class NotCompared(Exception):
    """Its text tells why."""


def _program(named: str, environment: Mapping[str, str]) -> str:
    named = named or environment.get("STRETTO_PROGRAM", "")
    folders = [*environment.get("PATH", "").split(os.pathsep), os.path.dirname(sys.executable)]
    found = shutil.which(named or "stretto", path=os.pathsep.join(filter(None, folders)))
    if found:
        return found
    if named:
        raise NotCompared(f"{named}: found no program, expected `stretto`")
    raise NotCompared("found no `stretto` on PATH or beside Python, expected the program, which "
                      "compares it; STRETTO_PROGRAM names one")


def command(named: str, environment: Mapping[str, str] = os.environ) -> list[str]:
    """The dry run of a job on standard input. Errors: NotCompared."""
    return [_program(named, environment), "job", "submit", "-", "--dry-run", "-o", "json"]


def document(request: CreateJobRequest) -> bytes:
    """The job file of a request."""
    values = {"name": request.job_id, **values_of(request.job.spec)}
    return json.dumps(values, ensure_ascii=False).encode()


def _line(output: bytes) -> str:
    """The first line, as it can be shown."""
    line = output.decode("utf-8", "replace").strip().partition("\n")[0][:300]
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def _failure(code: int, out: bytes, err: bytes) -> str:
    said = _line(err).removeprefix("error: ") or (
        f'found "{_line(out)}", expected the document of a dry run')
    if code < 0:
        return f"{said} (killed by signal {-code})"
    return f"{said} (exit code {code})"


def _read(out: bytes) -> DryRun | None:
    """What is read of the document; None if it is none, or that of a program that does not tell."""
    try:
        values: Any = json.loads(out)
        if not isinstance(values, dict) or not values.keys() >= set(_FIELDS[1:]):
            return None
        return fill(DryRun(), {key: values[key] for key in _FIELDS if key in values})
    except (ValueError, RecursionError):  # InvalidInput is one
        return None


def judge(program: str, code: int, out: bytes, err: bytes) -> None:
    """Takes what the dry run came to. Returns if memory suffices, and if that depends on the places
    that the job would wait for. Errors: InvalidArgument with the places that have too little;
    NotCompared."""
    run = _read(out) if code in (0, 1) else None
    if run is None:
        raise NotCompared(f"{program}: {_failure(code, out, err)}")
    if run.HasField("fits") and not run.fits:
        raise InvalidArgument("the job does not fit memory", "", tuple(
            Violation(f"memory of {one.place}", one.description) for one in run.shortages))
    if run.memory_not_compared:
        raise NotCompared(run.memory_not_compared)
