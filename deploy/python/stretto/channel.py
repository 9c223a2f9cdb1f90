# SPDX-License-Identifier: Apache-2.0
"""How channels are made, for both clients."""
from typing import Any

import grpc

from stretto.tls import TlsFiles

OPTIONS = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # the least time of one attempt
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.max_receive_message_length", 64 << 20),
    # Clients of one process to one address do not share a failed connection.
    ("grpc.use_local_subchannel_pool", 1),
]


class _Bearer(grpc.AuthMetadataPlugin):
    """Adds the token to each call, as its file has it then. gRPC sends none without TLS."""

    def __init__(self, tls: TlsFiles) -> None:
        self._tls = tls

    def __call__(self, context: Any, callback: Any) -> None:
        try:
            callback((("authorization", f"Bearer {self._tls.token()}"),), None)
        except Exception as error:  # of the file; gRPC fails the call with its text
            callback((), error)


def credentials(tls: TlsFiles) -> grpc.ChannelCredentials:
    channel = grpc.ssl_channel_credentials(*tls.read())
    if not tls.token_file:
        return channel
    return grpc.composite_channel_credentials(channel,
                                              grpc.metadata_call_credentials(_Bearer(tls)))
