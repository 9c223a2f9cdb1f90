// SPDX-License-Identifier: Apache-2.0
#pragma once
// gRPC credentials for TLS 1.2 or 1.3, mutual unless tokens are taken. Both read the files again
// every second: new connections use the new content, and open connections continue. CheckFiles must
// have accepted the files.

#include <memory>

#include "proto/tls/files.h"

namespace grpc {
class ChannelCredentials;
class ServerCredentials;
}  // namespace grpc

namespace stretto::tls {

// Of a server's clients.
enum class ClientCertificate { kRequired, kOptional };

// A client with a certificate that is not of the CA fails the handshake, and so does one without
// any where it is required. Where it is optional, the server must ask of every call whose it is.
std::shared_ptr<grpc::ServerCredentials> ServerCredentials(
    const Files& files, ClientCertificate client = ClientCertificate::kRequired);

// The server's certificate must be signed by the CA, have the name or address that the channel was
// made with, and have role coordinator. With a token in `files` the client shows no certificate,
// and each call has to carry the token.
std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials(const Files& files);

}  // namespace stretto::tls
