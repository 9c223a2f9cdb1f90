// SPDX-License-Identifier: Apache-2.0
#pragma once
// TCP sockets of our own: listeners and what is known of a connection.

#include <sys/socket.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/address.h"
#include "proto/base/files.h"

namespace stretto {

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t bytes = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  // The address without the port: "10.0.0.1", of IPv6 the network of 64 bits, which one machine
  // has whole. An IPv4 address in IPv6 is that address.
  std::string Machine() const;
  // "HOST:PORT", an IPv6 host in brackets.
  std::string Text() const;
  int port() const;
};

// Resolves a numeric host, or localhost, without asking a name server: 127.0.0.1 and ::1 for
// localhost, otherwise one. With `names`, other names are looked up, which may take time. Errors:
// InvalidArgument, naming the host.
absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host, int port,
                                                   bool names = false);

// Listens without blocking, also for IPv4 if `address` is that of all interfaces of IPv6. Errors:
// Unavailable, naming the call that failed and why.
absl::StatusOr<FileDescriptor> ListenAt(const SocketAddress& address);

// Of a socket. Errors: Unavailable.
absl::StatusOr<SocketAddress> LocalAddressOf(int fd);

// Whether accept failed because no descriptor or memory is left. The listener then stays readable,
// so wait before another try.
bool IsOutOfDescriptors(int error);

}  // namespace stretto
