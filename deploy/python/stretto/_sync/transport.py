# SPDX-License-Identifier: Apache-2.0
"""What the synchronous client needs in place of asyncio. _async/transport.py has the same names."""
import time
from collections.abc import Callable
from contextlib import closing as closing
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
