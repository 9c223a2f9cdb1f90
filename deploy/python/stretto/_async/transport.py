# SPDX-License-Identifier: Apache-2.0
"""What the asynchronous client needs of asyncio. _sync/transport.py has the same names."""
import asyncio
import contextlib
import os
import signal
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing as aclosing
from typing import TypeVar

import grpc.aio

from stretto.channel import OPTIONS, credentials
from stretto.tls import TlsFiles

T = TypeVar("T")


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def in_thread(function: Callable[..., T], *arguments: object) -> T:
    """Calls a function that blocks."""
    return await asyncio.to_thread(function, *arguments)


def open_channel(address: str, tls: TlsFiles) -> grpc.aio.Channel:
    if tls:
        return grpc.aio.secure_channel(address, credentials(tls), OPTIONS)
    return grpc.aio.insecure_channel(address, OPTIONS)


async def close_channel(channel: grpc.aio.Channel) -> None:
    await channel.close(None)


async def run_program(command: Sequence[str], environment: Mapping[str, str], text: bytes,
                      seconds: float) -> tuple[int, bytes, bytes]:
    """Runs a program with `text` as its standard input. Returns its exit code, as of subprocess,
    its output and its errors. It is killed, with what it has started, after `seconds` and if the
    task is cancelled. Errors: OSError; TimeoutError, which is one."""
    with tempfile.TemporaryFile() as file:
        # Through a pipe that the program does not read, asyncio would log an error of its own.
        file.write(text)
        file.seek(0)
        # A start that is cancelled would kill the program alone.
        start = asyncio.ensure_future(asyncio.create_subprocess_exec(
            *command, env=environment, stdin=file, stdout=PIPE, stderr=PIPE,
            start_new_session=True))
        try:
            child = await asyncio.shield(start)
            out, err = await asyncio.wait_for(child.communicate(), seconds)
        except BaseException as error:
            child = await start
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
            if isinstance(error, TimeoutError):
                raise TimeoutError(
                    f"{command[0]}: found no answer within {seconds:g} s") from None
            raise
    return await child.wait(), out, err
