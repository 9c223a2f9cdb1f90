// SPDX-License-Identifier: Apache-2.0

// gloo makes the connections of its pairs itself: a pair listens, and takes the first that comes.
// So a pair listens on loopback, gets a decoy of ours, and then the descriptor that gloo knows is
// made to denote the connection that we have made. The device's loop must not see the descriptor
// meanwhile.

#include "worker/comm/gloo/admit.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "gloo/transport/context.h"
#include "gloo/transport/pair.h"
#include "gloo/transport/tcp/address.h"
#include "gloo/transport/tcp/device.h"
#include "proto/base/check.h"

namespace stretto {
namespace {

using GlooAddress = gloo::transport::tcp::Address;

// Another process of this machine may be faster than the decoy, in the moment for which a pair
// listens. Not many times in a row.
constexpr int kTries = 8;

absl::Status Failed(const char* call) {
  return absl::UnavailableError(absl::StrCat(call, ": ", std::generic_category().message(errno)));
}

bool Same(const sockaddr_in& a, const sockaddr_in& b) {
  return a.sin_family == b.sin_family && a.sin_port == b.sin_port &&
         a.sin_addr.s_addr == b.sin_addr.s_addr;
}

sockaddr_in NameOf(int fd, int (*name)(int, sockaddr*, socklen_t*)) {
  sockaddr_in address = {};
  socklen_t bytes = sizeof address;
  if (name(fd, reinterpret_cast<sockaddr*>(&address), &bytes) != 0) return {};
  return address;
}

// Our own descriptor of the other end of `fd`; -1 if it is somebody else's.
int OtherEndOf(int fd) {
  const sockaddr_in here = NameOf(fd, getsockname), there = NameOf(fd, getpeername);
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return -1;
  const absl::Cleanup close_folder = [folder] { closedir(folder); };
  while (const dirent* const entry = readdir(folder)) {
    const int other = std::atoi(entry->d_name);
    if (entry->d_name[0] == '.' || other == fd) continue;
    if (Same(NameOf(other, getsockname), there) && Same(NameOf(other, getpeername), here)) {
      return other;
    }
  }
  return -1;
}

// Lets gloo connect the pair to a decoy. Returns gloo's descriptor, -1 if somebody else was faster.
absl::StatusOr<int> ConnectToDecoy(gloo::transport::Pair& pair, const FileDescriptor& decoy) {
  const sockaddr_storage at = GlooAddress(pair.address().bytes()).getSockaddr();
  if (connect(decoy.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(sockaddr_in)) != 0) {
    return Failed("connect to a pair");
  }
  // gloo waits for its peer if that has the higher address.
  sockaddr_in higher = {};
  higher.sin_family = AF_INET;
  higher.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  pair.connect(GlooAddress(reinterpret_cast<const sockaddr*>(&higher), sizeof higher).bytes());
  return OtherEndOf(decoy.get());
}

}  // namespace

absl::Status Admit(gloo::transport::Context& mesh, gloo::transport::tcp::Device& device, int rank,
                   FileDescriptor connection) {
  for (int i = 0; i < kTries; ++i) {
    const FileDescriptor decoy(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!decoy.valid()) return Failed("socket");
    gloo::transport::Pair& pair = *mesh.createPair(rank);
    absl::StatusOr<int> gloos = ConnectToDecoy(pair, decoy);
    if (!gloos.ok()) return gloos.status();
    if (*gloos < 0) continue;
    auto* const handler = dynamic_cast<gloo::transport::tcp::Handler*>(&pair);
    STRETTO_CHECK(handler != nullptr);
    const int on = 1;
    setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    device.unregisterDescriptor(*gloos, handler);
    if (dup3(connection.get(), *gloos, O_CLOEXEC) < 0) return Failed("dup3");
    device.registerDescriptor(*gloos, EPOLLIN, handler);
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat("other processes connected to a listener on ",
                                             kDeviceAddress, " ", kTries, " times before we did"));
}

}  // namespace stretto
