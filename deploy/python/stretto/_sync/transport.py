# SPDX-License-Identifier: Apache-2.0
"""What the synchronous client needs in place of asyncio. _async/transport.py has the same names."""
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing as closing
from subprocess import PIPE
from typing import TypeVar

import grpc

from stretto.channel import OPTIONS, credentials
from stretto.tls import TlsFiles

T = TypeVar("T")

sleep = time.sleep


def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that blocks."""
    return function(*arguments)


def open_channel(address: str, tls: TlsFiles) -> grpc.Channel:
    if tls:
        return grpc.secure_channel(address, credentials(tls), OPTIONS)
    return grpc.insecure_channel(address, OPTIONS)


def close_channel(channel: grpc.Channel) -> None:
    channel.close()


def run_program(command: Sequence[str], environment: Mapping[str, str], text: bytes,
                seconds: float) -> tuple[int, bytes, bytes]:
    """Runs a program with `text` as its standard input. Returns its exit code, as of subprocess,
    its output and its errors. It is killed, with what it has started, after `seconds` and if an
    exception such as KeyboardInterrupt comes. Errors: OSError; TimeoutError, which is one."""
    with subprocess.Popen(command, env=environment, stdin=PIPE, stdout=PIPE, stderr=PIPE,
                          start_new_session=True) as child:
        try:
            out, err = child.communicate(text, seconds)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise TimeoutError(f"{command[0]}: found no answer within {seconds:g} s") from None
            raise
    return child.returncode, out, err
