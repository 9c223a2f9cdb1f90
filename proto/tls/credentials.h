// SPDX-License-Identifier: Apache-2.0
#pragma once
// gRPC credentials for mutual TLS 1.2 or 1.3. Both read the files again every second: new
// connections use the new content, and open connections continue. CheckFiles must have accepted the
// files.

#include <memory>

#include "proto/tls/files.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace stretto::tls {

// A client without a certificate of the CA fails the handshake.
std::shared_ptr<grpc::ServerCredentials> ServerCredentials(const Files& files);

// The server's certificate must be signed by the CA, have the name or address that the channel was
// made with, and have role coordinator.
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(const Files& files);

}  // namespace stretto::tls
