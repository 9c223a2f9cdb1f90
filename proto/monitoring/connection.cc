// SPDX-License-Identifier: Apache-2.0
#include "proto/monitoring/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace stretto::monitoring {
namespace {

class Plain final : public Connection {
 public:
  explicit Plain(FileDescriptor socket) : socket_(std::move(socket)) {}
  int fd() const override { return socket_.get(); }
  Moved Receive(char* to, size_t most) override {
    return MovedBy(recv(fd(), to, most, MSG_DONTWAIT), POLLIN);
  }
  Moved Send(const char* from, size_t count) override {
    return MovedBy(send(fd(), from, count, MSG_NOSIGNAL | MSG_DONTWAIT), POLLOUT);
  }
  void EndSending() override { shutdown(fd(), SHUT_WR); }

 private:
  static Moved MovedBy(ssize_t n, short wait_for) {
    if (n > 0) return {.bytes = static_cast<size_t>(n)};
    const bool later = n < 0 && (errno == EAGAIN || errno == EINTR);
    return {.wait_for = later ? wait_for : short{0}};
  }

  const FileDescriptor socket_;
};

}  // namespace

std::unique_ptr<Connection> PlainConnection(FileDescriptor socket) {
  return std::make_unique<Plain>(std::move(socket));
}

}  // namespace stretto::monitoring
