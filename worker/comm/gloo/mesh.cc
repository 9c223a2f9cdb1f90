// SPDX-License-Identifier: Apache-2.0

// Connects the mesh: opens a gate (gate.h), publishes its address, connects to the gates of lower
// ranks, lets higher ranks in, and gives the connections to gloo. No listener is left afterwards. A
// device's thread is created with the batch policy. gloo reports by exceptions; they are turned
// into statuses here.

#include "worker/comm/gloo/mesh.h"

#include <netdb.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gloo/transport/context.h"
#include "gloo/transport/tcp/device.h"
#include "proto/base/clock.h"
#include "proto/base/printable.h"
#include "proto/base/status_macros.h"
#include "worker/comm/gloo/admit.h"
#include "worker/comm/gloo/gate.h"

namespace stretto {
namespace {

// What a rank publishes: "HOST:PORT SIZE", and rank 0 the secret of the group after it.
struct Published {
  std::string address;
  std::string secret;  // of rank 0
};

absl::Duration MeetingOf(const GlooOptions& options) {
  return std::min(options.meeting, options.timeout);
}

std::string KeyOf(const GlooOptions& options, int rank) {
  return absl::StrCat(options.prefix, "/", rank);
}

absl::StatusOr<Published> Find(const GlooOptions& options, int peer, absl::Duration deadline) {
  const std::string key = KeyOf(options, peer);
  const absl::Duration left = std::max(absl::ZeroDuration(), deadline - Clock::Real().Monotonic());
  const absl::StatusOr<std::string> text = options.store->Get(key, left);
  if (absl::IsDeadlineExceeded(text.status())) {
    return absl::DeadlineExceededError(absl::StrCat("rank ", peer, " did not appear within ",
                                                    absl::FormatDuration(MeetingOf(options)),
                                                    " (store key '", key, "')"));
  }
  RETURN_IF_ERROR(text.status());
  const std::vector<std::string> parts = absl::StrSplit(*text, ' ');
  Published published;
  const bool whole = parts.size() == (peer == 0 ? 3 : 2) && parts[1] == absl::StrCat(options.size);
  if (whole && peer == 0) published.secret = absl::HexStringToBytes(parts[2]);
  if (!whole || (peer == 0 && published.secret.size() != kSecretBytes)) {
    // Without the secret.
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", peer, " published ", text->size(), " bytes, found size ",
                     parts.size() > 1 ? Escaped(Prefix(parts[1], 20)) : "none",
                     ", expected an address for a group of ", options.size));
  }
  published.address = parts[0];
  return published;
}

absl::Status ConnectAll(const GlooOptions& options, gloo::transport::Context& mesh,
                        absl::Duration deadline) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Gate> gate, Gate::Listen(options.network->address));
  Membership self{
      .group = options.prefix, .rank = options.rank, .size = options.size, .secret = {}};
  std::string published = absl::StrCat(gate->address(), " ", options.size);
  if (options.rank == 0) {
    self.secret = NewSecret();
    absl::StrAppend(&published, " ", absl::BytesToHexString(self.secret));
  }
  RETURN_IF_ERROR(options.store->Set(KeyOf(options, options.rank), published));
  if (options.rank > 0) {
    ASSIGN_OR_RETURN(const Published first, Find(options, 0, deadline));
    self.secret = first.secret;
  }
  gate->Open(self);
  for (int peer = 0; peer < options.size; ++peer) {
    if (peer == options.rank) continue;
    ASSIGN_OR_RETURN(const Published at, Find(options, peer, deadline));
    absl::StatusOr<FileDescriptor> connection =
        peer < options.rank ? ConnectToGate(at.address, self, peer, deadline)
                            : gate->Await(peer, deadline);
    if (!connection.ok()) {
      return absl::Status(
          connection.status().code(),
          absl::StrCat("cannot connect to rank ", peer, ": ", connection.status().message()));
    }
    RETURN_IF_ERROR(Admit(mesh, *options.network->device, peer, *std::move(connection)));
  }
  if (options.strangers != nullptr) *options.strangers += gate->strangers();
  if (gate->strangers() > 0) {
    spdlog::warn("connections of strangers dropped while ranks met group={} count={}",
                 options.prefix, gate->strangers());
  }
  return absl::OkStatus();
}

// The device's thread moves the bytes and inherits the policy of the thread that makes it. As a
// batch thread it does not interrupt a computation on its core for every packet, but takes its turn
// with all that has arrived since; on an idle core it runs at once all the same.
std::shared_ptr<gloo::transport::tcp::Device> CreateDevice() {
  const int policy = sched_getscheduler(0);
  const sched_param none = {};
  const bool batch = policy == SCHED_OTHER && sched_setscheduler(0, SCHED_BATCH, &none) == 0;
  const absl::Cleanup restore = [&] {
    if (batch) sched_setscheduler(0, policy, &none);
  };
  return std::dynamic_pointer_cast<gloo::transport::tcp::Device>(
      gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr(kDeviceAddress)));
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
    return std::make_shared<const GlooInterface>(
        GlooInterface{.device = CreateDevice(), .address = address});
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
  if (MeetingOf(options) <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(absl::StrCat(
        group, "timeout is ", absl::FormatDuration(MeetingOf(options)), ", expected above 0"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<gloo::transport::Context>> ConnectMesh(const GlooOptions& options) {
  IgnoreSigpipe();
  const std::string who = absl::StrCat("rank ", options.rank, " of ", options.size,
                                       " (gloo group '", options.prefix, "'): ");
  const absl::Duration meeting = MeetingOf(options);
  const absl::Duration deadline = Clock::Real().Monotonic() + meeting;
  const std::shared_ptr<gloo::transport::Context> mesh =
      options.network->device->createContext(options.rank, options.size);
  mesh->setTimeout(ToMilliseconds(meeting));  // of a pair, which uses it for nothing here
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
