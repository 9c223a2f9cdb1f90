# SPDX-License-Identifier: Apache-2.0
"""What the clients ask for: which jobs of a list, and which lines of a log."""
import datetime
import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from stretto.errors import InvalidInput
from stretto.v1alpha1 import job_pb2 as pb

_STATES: dict[str, Any] = {name.lower(): number for name, number in pb.Job.State.items() if number != 0}


def _state(word: str) -> Any:
    if word not in _STATES:
        near = difflib.get_close_matches(word, _STATES, 1) if isinstance(word, str) else []
        raise InvalidInput(f"states: found {word!r}, expected one of: {', '.join(_STATES)}" + (
            f'; did you mean "{near[0]}"?' if near else ""))
    return _STATES[word]


def list_request(project: str, states: Iterable[str], labels: Mapping[str, str | None] | None,
                 retired: bool) -> pb.ListJobsRequest:
    """Errors: InvalidInput."""
    if isinstance(states, str):
        states = [states]
    return pb.ListJobsRequest(
        page_size=1000, project=project, states=[_state(word) for word in states], retired=retired,
        labels=[pb.LabelSelector(key=key, value=value) for key, value in (labels or {}).items()])


def log_selection(tail: int | None, since: datetime.datetime | None, grep: str
                  ) -> pb.LogSelection:
    """Errors: InvalidInput."""
    if tail is not None and tail < 0:
        raise InvalidInput(f"tail: found {tail}, expected at least 0 lines")
    selection = pb.LogSelection(tail_lines=tail, grep=grep)
    if since is not None:
        if since.tzinfo is None:
            raise InvalidInput(f"since: found {since} without a time zone, expected one with it: "
                               "datetime.datetime.now(datetime.timezone.utc)")
        selection.since.FromDatetime(since.astimezone(datetime.timezone.utc))
    return selection
