# SPDX-License-Identifier: Apache-2.0
"""Exceptions. Each message names the object, what was found and what was expected.

StrettoError
  InvalidInput      refused on this side: an address, a certificate file, a job file
  MissingLibrary    an optional library is not installed
  CallError         a call failed; its subclasses are the codes of gRPC that users tell apart
"""
import dataclasses
from typing import Any

import grpc

from stretto.google_rpc import error_details_pb2, status_pb2


class StrettoError(Exception):
    """The base of all errors of this package."""


class InvalidInput(StrettoError, ValueError):
    """Something that was given cannot be used; nothing was sent."""


class MissingLibrary(StrettoError, ImportError):
    """An optional library is not installed."""


@dataclasses.dataclass(frozen=True)
class Violation:
    """A field that the coordinator refuses, or memory that a place lacks."""

    field: str  # as the coordinator names it: "spec.parallelism.tp_size"; "memory of node a"
    description: str
    place: str = ""  # FILE:LINE:COLUMN, if the job came from text

    def __str__(self) -> str:
        return ": ".join(part for part in (self.place, self.field, self.description) if part)


class CallError(StrettoError):
    """A call that failed. `reason` is the coordinator's, for programs; it is empty if the error
    occurred on the way. docs/reference/api.md lists the reasons of each call."""

    code = grpc.StatusCode.UNKNOWN

    def __init__(self, message: str, reason: str = "",
                 violations: tuple[Violation, ...] = ()) -> None:
        super().__init__("\n".join(map(str, violations)) or message)
        self.message = message
        self.reason = reason
        self.violations = violations


class InvalidArgument(CallError):
    """Fields are refused, or memory does not suffice: see `violations`."""

    code = grpc.StatusCode.INVALID_ARGUMENT


class NotFound(CallError):
    code = grpc.StatusCode.NOT_FOUND


class AlreadyExists(CallError):
    code = grpc.StatusCode.ALREADY_EXISTS


class FailedPrecondition(CallError):
    """The object is in a state in which this cannot be done."""

    code = grpc.StatusCode.FAILED_PRECONDITION


class ResourceExhausted(CallError):
    code = grpc.StatusCode.RESOURCE_EXHAUSTED


class PermissionDenied(CallError):
    """The role of the certificate does not allow the call."""

    code = grpc.StatusCode.PERMISSION_DENIED


class Unavailable(CallError):
    """No coordinator answered, or the one that did cannot serve now."""

    code = grpc.StatusCode.UNAVAILABLE


class DeadlineExceeded(CallError):
    code = grpc.StatusCode.DEADLINE_EXCEEDED


class Cancelled(CallError):
    code = grpc.StatusCode.CANCELLED


class Internal(CallError):
    code = grpc.StatusCode.INTERNAL


_BY_CODE = {kind.code: kind for kind in CallError.__subclasses__()}


def _details(error: grpc.RpcError) -> tuple[str, tuple[Violation, ...]]:
    reason, violations = "", []
    metadata: Any = error.trailing_metadata() or ()
    for key, value in metadata:
        if key != "grpc-status-details-bin":
            continue
        for detail in status_pb2.Status.FromString(value).details:
            if detail.type_url.endswith("/google.rpc.ErrorInfo"):
                reason = error_details_pb2.ErrorInfo.FromString(detail.value).reason
            elif detail.type_url.endswith("/google.rpc.BadRequest"):
                request = error_details_pb2.BadRequest.FromString(detail.value)
                violations += [Violation(one.field, one.description)
                               for one in request.field_violations]
    return reason, tuple(violations)


def _on_the_way(code: grpc.StatusCode, text: str, address: str) -> str:
    """Explains an error that no coordinator could explain."""
    if code == grpc.StatusCode.UNAVAILABLE:
        cause = text.rpartition("Failed to connect to remote host: ")[2]
        return (f"cannot reach the coordinator at {address}: {cause}; expected one that listens "
                "there: `stretto up` starts a local cluster, and Client(coordinator=...) or "
                "STRETTO_COORDINATOR selects another one")
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"no answer from the coordinator at {address} in time: {text}"
    return text


def from_rpc(error: grpc.RpcError, address: str) -> CallError:
    """The exception of a failed call to `address`."""
    reason, violations = _details(error)
    code, text = error.code(), error.details() or ""
    kind = _BY_CODE.get(code, CallError)
    failure = kind(text if reason else _on_the_way(code, text, address), reason, violations)
    failure.code = code
    return failure


def is_transient(error: CallError) -> bool:
    """Whether the same call may succeed later: the coordinator restarts, or the network is away."""
    if error.reason:
        return error.reason in ("SHUTTING_DOWN", "STANDBY")
    return isinstance(error, (Unavailable, Cancelled, Internal, DeadlineExceeded))
