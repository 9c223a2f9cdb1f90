// SPDX-License-Identifier: Apache-2.0
#pragma once
// A request of the kind that Prometheus and kubelets make.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <string>

#include "proto/base/files.h"

namespace stretto::monitoring {

// The whole answer of 127.0.0.1:`port`; empty when nobody listens. What arrived so far when the
// answer pauses for 30 s.
inline std::string HttpGet(int port, const std::string& path, const std::string& method = "GET") {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval patience = {.tv_sec = 30, .tv_usec = 0};
  EXPECT_EQ(::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    return "";
  }
  EXPECT_TRUE(WriteAll(socket.get(), method + " " + path + " HTTP/1.0\r\n\r\n", "socket").ok());
  std::string answer;
  char block[4096];
  for (ssize_t n = 0; (n = ::read(socket.get(), block, sizeof(block))) > 0;) {
    answer.append(block, static_cast<size_t>(n));
  }
  return answer;
}

}  // namespace stretto::monitoring
