// SPDX-License-Identifier: Apache-2.0

// Connects the mesh: makes a listener per peer, publishes all their addresses under one key of the
// store, and connects to the address that each peer has published for us. A device's thread is
// created with the batch policy. gloo reports by exceptions; they are turned into statuses here.

#include "worker/comm/gloo/mesh.h"

#include <netdb.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gloo/transport/address.h"
#include "gloo/transport/context.h"
#include "gloo/transport/pair.h"
#include "gloo/transport/tcp/device.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

// Each rank publishes the addresses of its listeners, one per peer in rank order. This is the place
// of `peer` in the list of `rank`.
int PlaceOf(int peer, int rank) { return peer < rank ? peer : peer - 1; }

absl::StatusOr<std::vector<char>> AddressOf(const GlooOptions& options, int peer,
                                            size_t address_bytes, absl::Duration deadline) {
  const std::string key = absl::StrCat(options.prefix, "/", peer);
  const absl::Duration left = std::max(absl::ZeroDuration(), deadline - Clock::Real().Monotonic());
  const absl::StatusOr<std::string> list = options.store->Get(key, left);
  if (absl::IsDeadlineExceeded(list.status())) {
    return absl::DeadlineExceededError(absl::StrCat("rank ", peer, " did not appear within ",
                                                    absl::FormatDuration(options.timeout),
                                                    " (store key '", key, "')"));
  }
  RETURN_IF_ERROR(list.status());
  const size_t expected = address_bytes * (options.size - 1);
  if (list->size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", peer, " published ", list->size(),
                                                   " bytes of addresses, expected ", expected,
                                                   " for a group of ", options.size));
  }
  const auto begin =
      list->begin() + static_cast<std::ptrdiff_t>(address_bytes) * PlaceOf(options.rank, peer);
  return std::vector<char>(begin, begin + static_cast<std::ptrdiff_t>(address_bytes));
}

absl::Status ConnectAll(const GlooOptions& options, gloo::transport::Context& mesh,
                        absl::Duration deadline) {
  std::string list;
  size_t address_bytes = 0;
  for (int peer = 0; peer < options.size; ++peer) {
    if (peer == options.rank) continue;
    const std::vector<char> address = mesh.createPair(peer)->address().bytes();
    address_bytes = address.size();
    list.append(address.begin(), address.end());
  }
  RETURN_IF_ERROR(options.store->Set(absl::StrCat(options.prefix, "/", options.rank), list));
  for (int peer = 0; peer < options.size; ++peer) {
    if (peer == options.rank) continue;
    ASSIGN_OR_RETURN(const auto address, AddressOf(options, peer, address_bytes, deadline));
    try {
      mesh.getPair(peer)->connect(address);
    } catch (const std::exception& error) {
      const std::string text = TextOf(error);
      const auto code =
          IsTimeout(text) ? absl::StatusCode::kDeadlineExceeded : absl::StatusCode::kUnavailable;
      return absl::Status(code, absl::StrCat("cannot connect to rank ", peer, ": ", text));
    }
  }
  return absl::OkStatus();
}

// The device's thread moves the bytes and inherits the policy of the thread that makes it. As a
// batch thread it does not interrupt a computation on its core for every packet, but takes its turn
// with all that has arrived since; on an idle core it runs at once all the same.
std::shared_ptr<gloo::transport::Device> CreateDevice(const std::string& address) {
  const int policy = sched_getscheduler(0);
  const sched_param none = {};
  const bool batch = policy == SCHED_OTHER && sched_setscheduler(0, SCHED_BATCH, &none) == 0;
  const absl::Cleanup restore = [&] {
    if (batch) sched_setscheduler(0, policy, &none);
  };
  return gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(address.c_str()));
}

// gloo leaks when it refuses an address, and would ask a name server about one that is no number.
absl::Status CheckAddress(const std::string& address) {
  const auto refused = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("cannot listen on '", address, "': ", why));
  };
  addrinfo hints = {};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(address.c_str(), nullptr, &hints, &found);
  if (error != 0) return refused(absl::StrCat("expected an IP address: ", gai_strerror(error)));
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool bound = fd >= 0 && bind(fd, found->ai_addr, found->ai_addrlen) == 0;
  const int reason = errno;
  freeaddrinfo(found);
  if (fd >= 0) close(fd);
  return bound ? absl::OkStatus() : refused(std::generic_category().message(reason));
}

// gloo writes to sockets without MSG_NOSIGNAL: a lost peer must not end the process.
void IgnoreSigpipe() {
  struct sigaction current = {};
  sigaction(SIGPIPE, nullptr, &current);
  if ((current.sa_flags & SA_SIGINFO) == 0 && current.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

}  // namespace

std::string TextOf(const std::exception& error) {
  const std::string text = error.what();
  const size_t end = text.find("] ");
  return text.rfind('[', 0) == 0 && end != std::string::npos ? text.substr(end + 2) : text;
}

bool IsTimeout(const std::string& text) {
  return absl::StrContains(text, "Timed out") || absl::StrContains(text, "timeout");
}

std::chrono::milliseconds ToMilliseconds(absl::Duration duration) {
  return std::chrono::milliseconds(std::max<int64_t>(1, absl::ToInt64Milliseconds(duration)));
}

absl::StatusOr<GlooNetwork> OpenGlooNetwork(const std::string& address) {
  RETURN_IF_ERROR(CheckAddress(address));
  try {
    return CreateDevice(address);
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("cannot open a device on '", address, "': ", TextOf(error)));
  }
}

absl::Status CheckOptions(const GlooOptions& options) {
  const std::string group = absl::StrCat("gloo group '", options.prefix, "': ");
  if (options.size < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(group, "size is ", options.size, ", expected at least 1"));
  }
  if (options.rank < 0 || options.rank >= options.size) {
    return absl::InvalidArgumentError(
        absl::StrCat(group, "rank is ", options.rank, ", expected 0 to ", options.size - 1));
  }
  if (options.size > 1 && options.store == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(group, "no store, expected one for ", options.size, " ranks"));
  }
  if (options.size > 1 && options.network == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(group, "no network, expected one for ", options.size, " ranks"));
  }
  if (options.timeout <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        group, "timeout is ", absl::FormatDuration(options.timeout), ", expected above 0"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<gloo::transport::Context>> ConnectMesh(const GlooOptions& options) {
  IgnoreSigpipe();
  const std::string who = absl::StrCat("rank ", options.rank, " of ", options.size,
                                       " (gloo group '", options.prefix, "'): ");
  const absl::Duration deadline = Clock::Real().Monotonic() + options.timeout;
  const std::shared_ptr<gloo::transport::Context> mesh =
      options.network->createContext(options.rank, options.size);
  // A new pair takes the timeout of its context, waits five times as long for its connection, and
  // uses it for nothing else here.
  mesh->setTimeout(ToMilliseconds(options.timeout / 5));
  absl::Status status;
  try {
    status = ConnectAll(options, *mesh, deadline);
  } catch (const std::exception& error) {
    status = absl::UnavailableError(absl::StrCat("cannot open a listener: ", TextOf(error)));
  }
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(who, status.message()));
  return mesh;
}

}  // namespace stretto
