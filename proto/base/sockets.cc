// SPDX-License-Identifier: Apache-2.0
#include "proto/base/sockets.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace stretto {

int SocketAddress::port() const {
  if (storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage)->sin_port);
}

std::string SocketAddress::Machine() const {
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (storage.ss_family == AF_INET6) {
    in6_addr address = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&address)) {
      inet_ntop(AF_INET, &address.s6_addr[12], text.data(), text.size());
      return text.data();
    }
    std::memset(&address.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &address, text.data(), text.size());
    return text.data();
  }
  inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text.data(),
            text.size());
  return text.data();
}

std::string SocketAddress::Text() const {
  std::array<char, NI_MAXHOST> host = {};
  if (getnameinfo(get(), bytes, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "unknown";
  }
  const bool ipv6 = storage.ss_family == AF_INET6;
  return absl::StrCat(ipv6 ? "[" : "", host.data(), ipv6 ? "]:" : ":", port());
}

absl::StatusOr<std::vector<SocketAddress>> Resolve(const std::string& host, int port, bool names) {
  std::vector<std::string> numbers = {host};
  if (host == "localhost") numbers = {"127.0.0.1", "::1"};
  std::vector<SocketAddress> addresses;
  for (const std::string& number : numbers) {
    addrinfo hints = {};
    hints.ai_flags = AI_NUMERICSERV | (names ? 0 : AI_NUMERICHOST);
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int error = getaddrinfo(number.c_str(), absl::StrCat(port).c_str(), &hints, &found);
    if (error != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("found '", host, "', expected an address: ", gai_strerror(error)));
    }
    const absl::Cleanup free = [found] { freeaddrinfo(found); };
    SocketAddress& address = addresses.emplace_back();
    address.bytes = found->ai_addrlen;
    std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  }
  return addresses;
}

absl::StatusOr<FileDescriptor> ListenAt(const SocketAddress& address) {
  const auto failed = [&](const char* call) {
    return absl::UnavailableError(
        absl::StrCat(call, " ", address.Text(), ": ", std::generic_category().message(errno)));
  };
  FileDescriptor listener(
      socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.valid()) return failed("socket");
  // A port whose last owner has just ended is free; one that somebody listens on is not.
  const int on = 1, off = 0;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.storage.ss_family == AF_INET6) {
    setsockopt(listener.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (bind(listener.get(), address.get(), address.bytes) != 0) return failed("bind");
  if (listen(listener.get(), SOMAXCONN) != 0) return failed("listen");
  return listener;
}

absl::StatusOr<SocketAddress> LocalAddressOf(int fd) {
  SocketAddress address;
  if (getsockname(fd, address.get(), &address.bytes) == 0) return address;
  return absl::UnavailableError(
      absl::StrCat("getsockname: ", std::generic_category().message(errno)));
}

bool IsOutOfDescriptors(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

}  // namespace stretto
