// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connections of targets that send bytes to a port of this process. They are reset when they are
// closed, so that a million of them leave none that waits in the kernel.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "absl/strings/string_view.h"
#include "proto/base/check.h"
#include "proto/base/files.h"

namespace stretto::fuzz {

inline void ResetAtTheEnd(const FileDescriptor& fd) {
  const linger at_once = {.l_onoff = 1, .l_linger = 0};
  STRETTO_CHECK(setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
}

inline FileDescriptor Connect(int port) {
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  STRETTO_CHECK(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  ResetAtTheEnd(fd);
  return fd;
}

// Until the other side closes.
inline void SendAll(const FileDescriptor& fd, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

inline std::string ReadToTheEnd(const FileDescriptor& fd) {
  std::string out;
  char part[4096];
  while (true) {
    const ssize_t n = recv(fd.get(), part, sizeof part, 0);
    if (n <= 0) return out;
    out.append(part, static_cast<size_t>(n));
  }
}

}  // namespace stretto::fuzz
