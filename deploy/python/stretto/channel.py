# SPDX-License-Identifier: Apache-2.0
"""How channels are made, for both clients."""
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


def credentials(tls: TlsFiles) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(*tls.read())
