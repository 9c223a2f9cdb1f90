# SPDX-License-Identifier: Apache-2.0
"""A connection to one address of a cluster. The build of the wheel writes _sync/peer.py from this
file, as it does with client.py.
"""
import time
from typing import Any

import grpc

from stretto.tls import TlsFiles, look
from stretto.v1alpha1 import job_pb2_grpc as rpc

from .transport import close_channel, in_thread, open_channel


class Peer:
    """One address, and the connection to it once there is one."""

    def __init__(self, address: str, tls: TlsFiles) -> None:
        self.address = address
        self.fault = ""  # of TLS
        self.jobs: Any = None
        self.cluster: Any = None
        self._tls = tls
        self._stamp: tuple[int, ...] = ()
        self._trusted = False
        self._channel: Any = None

    async def connect(self, seconds: float) -> bool:
        """Returns whether the peer answers. The connection is made anew if certificates were
        replaced since; before its first use, a handshake finds out whether the peer is a
        coordinator."""
        deadline = time.monotonic() + seconds
        stamp = self._tls.stamp()
        if stamp != self._stamp:
            await self.close()
        if self._channel is None:
            self._channel = open_channel(self.address, self._tls)
            self.jobs = rpc.JobServiceStub(self._channel)  # type: ignore[no-untyped-call]
            self.cluster = rpc.ClusterServiceStub(self._channel)  # type: ignore[no-untyped-call]
            self._stamp, self._trusted = stamp, not self._tls
        if not self._trusted:
            fault = await in_thread(look, self.address, self._tls, seconds)
            self.fault = fault or ""
            self._trusted = fault == ""
            if fault:
                return False
        return await self._answers(max(deadline - time.monotonic(), 0.05))

    async def _answers(self, seconds: float) -> bool:
        """Asks for its health, whatever that is. gRPC shows the state of a connection too, but the
        thread with which the blocking client would look at it outlives the channel."""
        check = self._channel.unary_unary("/grpc.health.v1.Health/Check")
        try:
            await check(b"", timeout=seconds, wait_for_ready=True)
        except grpc.RpcError as error:
            return bool(error.code() != grpc.StatusCode.DEADLINE_EXCEEDED)
        return True

    async def explain(self) -> str:
        """Why no connection comes about, as far as TLS can tell."""
        fault = await in_thread(look, self.address, self._tls, 2.0)
        return self.fault or fault or ""

    async def close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            await close_channel(channel)
