// SPDX-License-Identifier: Apache-2.0

// One thread accepts and decides. gRPC owns a connection once it has taken it, and says nothing
// when it closes it; so the front remembers the number of the descriptor and of the socket behind
// it, and once a second, and before it refuses anybody, forgets those that are not there any more.

#include "coordinator/front/front.h"

#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/address.h"
#include "proto/base/clock.h"
#include "proto/base/status_macros.h"

namespace stretto::service {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(100);
constexpr absl::Duration kBusy = absl::Milliseconds(10);  // between two looks at the handover
constexpr absl::Duration kSweep = absl::Seconds(1);
constexpr absl::Duration kProbe = absl::Seconds(1);
constexpr absl::Duration kTrim = absl::Seconds(1);  // after a connection was closed
// Bytes of a connection that wait in the kernel, of which it makes twice as many. What a peer has
// sent is then what gRPC has read, or nearly (memory_guard.h).
constexpr int kWaiting = 256 << 10;
constexpr int64_t kReserved = 64;  // descriptors for the store, probes and scrapes

// As many connections as the limit of descriptors allows, and at most `wanted`.
int64_t RoomFor(int64_t wanted) {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return wanted;
  return std::min(wanted, std::max<int64_t>(1, static_cast<int64_t>(limit.rlim_cur) - kReserved));
}

absl::Duration Now() { return Clock::Real().Monotonic(); }

}  // namespace

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

Front::Front(std::vector<FileDescriptor> listeners, FileDescriptor wake, int port,
             const FrontLimits& limits)
    : listeners_(std::move(listeners)),
      wake_(std::move(wake)),
      port_(port),
      limits_(limits),
      guard_(limits.memory_bytes, Surroundings::Real()) {}

absl::StatusOr<std::unique_ptr<Front>> Front::Listen(const std::string& address,
                                                     const FrontLimits& limits) {
  ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  ASSIGN_OR_RETURN(std::vector<SocketAddress> addresses,
                   Resolve(parsed.host, parsed.port, /*names=*/true));
  std::vector<FileDescriptor> listeners;
  int port = parsed.port;
  absl::Status first;
  for (SocketAddress& one : addresses) {
    if (port != parsed.port) {  // all addresses of localhost have the port of the first
      ASSIGN_OR_RETURN(const auto same, Resolve(parsed.host, port, /*names=*/true));
      one = same[static_cast<size_t>(&one - addresses.data())];
    }
    absl::StatusOr<FileDescriptor> listener = ListenAt(one);
    if (!listener.ok()) {  // a machine may have no IPv6
      if (listeners.empty()) first.Update(listener.status());
      if (&one == addresses.data()) break;
      continue;
    }
    ASSIGN_OR_RETURN(const SocketAddress own, LocalAddressOf(listener->get()));
    port = own.port();
    listeners.push_back(*std::move(listener));
  }
  if (listeners.empty()) return first;
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoStatus(errno, "eventfd");
  return std::unique_ptr<Front>(new Front(std::move(listeners), std::move(wake), port, limits));
}

Front::~Front() { Close(); }

void Front::Close() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
  handover_.reset();
  listeners_.clear();
}

void Front::Open(Take take) {
  handover_ = std::make_unique<Handover>(std::move(take));
  thread_ = std::thread([this] { Serve(); });
}

void Front::Serve() {
  while (true) {
    const bool paused = Now() < paused_until_;
    std::vector<pollfd> entries = {{.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    for (const FileDescriptor& listener : listeners_) {
      entries.push_back({.fd = paused ? -1 : listener.get(), .events = POLLIN, .revents = 0});
    }
    const absl::Duration next = handover_->busy() ? kBusy : MemoryGuard::kInterval;
    poll(entries.data(), entries.size(), static_cast<int>(absl::ToInt64Milliseconds(next)));
    if (entries[0].revents != 0) return;
    if (Now() - swept_ >= kSweep) {
      swept_ = Now();
      ForgetClosed();
    }
    if (const std::optional<Connection> ended = handover_->EndLong()) NoteLong(*ended);
    guard_.Look(Now(), taken_);
    if (guard_.closed() > closed_for_memory_) Trim(MemoryGuard::kPause);
    closed_for_memory_ = guard_.closed();
    if (Now() >= trim_at_) {
      trim_at_ = absl::InfiniteDuration();
      malloc_trim(0);
    }
    for (size_t i = 0; i < listeners_.size(); ++i) {
      if (entries[i + 1].revents != 0) Accept(listeners_[i].get());
    }
  }
}

void Front::Accept(int listener) {
  SocketAddress peer;
  FileDescriptor connection(
      accept4(listener, peer.get(), &peer.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.valid()) {
    if (!IsOutOfDescriptors(errno)) return;  // the peer has gone
    // Others wait in the kernel until a connection ends.
    if (const std::optional<int64_t> left_out = lines_.Admit(Now())) {
      spdlog::warn("no descriptor is left for a connection{}", LeftOutNote(*left_out));
    }
    paused_until_ = Now() + kPause;
    return;
  }
  if (IsProbe(peer.Text())) return;
  std::string machine = peer.Machine();
  if (!Admits(machine)) return;  // closes it
  const int on = 1;
  setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(connection.get(), SOL_SOCKET, SO_RCVBUF, &kWaiting, sizeof kWaiting);
  const int fd = connection.Release();
  taken_.push_back({.fd = fd, .socket = SocketBehind(fd), .machine = machine});
  handover_->Add(listener, taken_.back());
  ++by_machine_[std::move(machine)];
  open_ = static_cast<int64_t>(taken_.size());
}

void Front::NoteLong(const Connection& ended) {
  Trim(MemoryGuard::kPause);
  if (const std::optional<int64_t> left_out = long_lines_.Admit(Now())) {
    spdlog::warn(
        "connection closed from={}: it sent without a pause from its beginning, which took {} of "
        "CPU time, and others waited{}",
        ended.machine, absl::FormatDuration(Handover::kMost), LeftOutNote(*left_out));
  }
}

bool Front::Admits(const std::string& machine) {
  const int64_t most = RoomFor(limits_.connections);
  const auto fits = [&] {
    const auto own = by_machine_.find(machine);
    return static_cast<int64_t>(taken_.size()) < most &&
           (own == by_machine_.end() || own->second < limits_.of_one_machine);
  };
  if (fits()) return true;
  ForgetClosed();
  if (fits()) return true;
  const bool full = static_cast<int64_t>(taken_.size()) >= most;
  ++(full ? refused_in_all_ : refused_of_one_machine_);
  if (const std::optional<int64_t> left_out = lines_.Admit(Now())) {
    spdlog::warn("connection refused from={} open={} of_it={}{}", machine, taken_.size(),
                 by_machine_[machine], LeftOutNote(*left_out));
  }
  return false;
}

void Front::ForgetClosed() {
  const size_t closed = std::erase_if(taken_, [this](const Connection& taken) {
    if (SocketBehind(taken.fd) == taken.socket) return false;
    const auto own = by_machine_.find(taken.machine);
    if (--own->second == 0) by_machine_.erase(own);
    return true;
  });
  open_ = static_cast<int64_t>(taken_.size());
  if (closed > 0) Trim(kTrim);
}

// glibc would keep what a flood has taken. gRPC needs a moment to free it. Connections that are
// closed meanwhile do not put it off: a flood has some all the time.
void Front::Trim(absl::Duration after) { trim_at_ = std::min(trim_at_, Now() + after); }

bool Front::IsProbe(const std::string& peer) {
  const MutexLock lock(mu_);
  if (expected_.empty() || peer != expected_) return false;
  expected_.clear();
  noticed_.NotifyAll();
  return true;
}

absl::Status Front::Probe() {
  const MutexLock lock(probe_mu_);
  if (Now() - probed_ < kProbe) return found_;
  found_ = Dial();
  probed_ = Now();
  return found_;
}

absl::Status Front::Dial() {
  const auto deaf = [this](const std::string& why) {
    return absl::UnavailableError(absl::StrCat("nobody answers at port ", port_, ": ", why));
  };
  ASSIGN_OR_RETURN(SocketAddress to, LocalAddressOf(listeners_[0].get()));
  // The address of all interfaces reaches this machine too. The probe is bound first, so that the
  // front knows it when it comes.
  const FileDescriptor probe(
      socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return ErrnoStatus(errno, "probe: socket");
  SocketAddress from = to;
  if (to.storage.ss_family == AF_INET6) {
    auto* in = reinterpret_cast<sockaddr_in6*>(&from.storage);
    if (IN6_IS_ADDR_UNSPECIFIED(&in->sin6_addr)) in->sin6_addr = in6addr_loopback;
    in->sin6_port = 0;
  } else {
    auto* in = reinterpret_cast<sockaddr_in*>(&from.storage);
    if (in->sin_addr.s_addr == INADDR_ANY) in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    in->sin_port = 0;
  }
  if (bind(probe.get(), from.get(), from.bytes) != 0) return ErrnoStatus(errno, "probe: bind");
  ASSIGN_OR_RETURN(const SocketAddress own, LocalAddressOf(probe.get()));
  const MutexLock lock(mu_);
  expected_ = own.Text();
  if (connect(probe.get(), to.get(), to.bytes) != 0 && errno != EINPROGRESS) {
    return ErrnoStatus(errno, "probe: connect");
  }
  const bool noticed = noticed_.WaitFor(mu_, absl::ToChronoNanoseconds(kProbe),
                                        [this]() REQUIRES(mu_) { return expected_.empty(); });
  expected_.clear();
  return noticed ? absl::OkStatus() : deaf("no connection was accepted within 1s");
}

}  // namespace stretto::service
