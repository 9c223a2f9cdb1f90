// SPDX-License-Identifier: Apache-2.0

// One thread polls all sockets. A byte that was read is written at once, because both sides of a
// cluster in a test read what they get.

#include "tests/integration/cut_link.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace stretto::integration {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

}  // namespace

CutLink::CutLink(const std::string& port)
    : port_(std::atoi(port.c_str())),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener_.get(), generic, size), 0);
  EXPECT_EQ(::listen(listener_.get(), 16), 0);
  EXPECT_EQ(::getsockname(listener_.get(), generic, &size), 0);
  address_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  thread_ = std::thread([this] { Run(); });
}

CutLink::~CutLink() {
  {
    const MutexLock lock(mu_);
    stop_ = true;
  }
  SetCut(false);
  thread_.join();
  for (const auto& [there, back] : connections_) {
    ::close(there.from);
    ::close(there.to);
  }
}

void CutLink::SetCut(bool cut) {
  {
    const MutexLock lock(mu_);
    cut_ = cut;
  }
  const uint64_t one = 1;
  EXPECT_EQ(::write(wake_.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
}

void CutLink::Run() {
  while (true) {
    bool cut = false;
    {
      const MutexLock lock(mu_);
      if (stop_) return;
      cut = cut_;
    }
    std::vector<pollfd> polled = {{wake_.get(), POLLIN, 0}};
    if (!cut) {
      polled.push_back({listener_.get(), POLLIN, 0});
      for (const auto& [there, back] : connections_) {
        polled.push_back({there.from, POLLIN, 0});
        polled.push_back({back.from, POLLIN, 0});
      }
    }
    ::poll(polled.data(), polled.size(), -1);
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t n = ::read(wake_.get(), &count, sizeof(count));
    if (cut) continue;
    for (size_t i = connections_.size(); i-- > 0;) {
      auto& [there, back] = connections_[i];
      const bool open =
          Move(there, polled[2 + 2 * i].revents != 0) && Move(back, polled[3 + 2 * i].revents != 0);
      if (open) continue;
      ::close(there.from);
      ::close(there.to);
      connections_.erase(connections_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (polled[1].revents != 0) Accept();
  }
}

void CutLink::Accept() {
  const int client = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
  const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = Loopback(port_);
  if (client < 0 ||
      ::connect(server, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
    if (client >= 0) ::close(client);
    ::close(server);
    return;
  }
  connections_.push_back({{client, server}, {server, client}});
}

bool CutLink::Move(const Way& way, bool readable) {
  if (!readable) return true;
  char buffer[1 << 16];
  const ssize_t size = ::recv(way.from, buffer, sizeof(buffer), MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN;
  if (size == 0) return false;
  for (ssize_t sent = 0; sent < size;) {
    const ssize_t n = ::send(way.to, buffer + sent, static_cast<size_t>(size - sent), MSG_NOSIGNAL);
    if (n < 0) return false;
    sent += n;
  }
  return true;
}

}  // namespace stretto::integration
