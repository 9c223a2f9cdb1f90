# SPDX-License-Identifier: Apache-2.0
"""What the asynchronous client needs of asyncio. _sync/transport.py has the same names."""
import asyncio
from collections.abc import Callable
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
