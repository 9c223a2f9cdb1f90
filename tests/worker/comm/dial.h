// SPDX-License-Identifier: Apache-2.0
#pragma once
// Connections of strangers.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "proto/base/address.h"
#include "proto/base/files.h"

namespace stretto::testing {

// Connects to "127.0.0.1:PORT".
inline FileDescriptor ConnectTo(const std::string& address) {
  const auto parsed = ParseAddress(address);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  sockaddr_in to = {};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<uint16_t>(parsed->port));
  inet_pton(AF_INET, parsed->host.c_str(), &to.sin_addr);
  FileDescriptor fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to), 0) << address;
  return fd;
}

}  // namespace stretto::testing
