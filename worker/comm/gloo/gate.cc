// SPDX-License-Identifier: Apache-2.0

// A peer says hello with its number, the gate answers with its own number and proof, the peer sends
// its proof, and the gate says welcome. All four have a fixed length, so nobody reads a byte of
// what follows. One thread serves all visitors with poll, none for longer than kHandshake.

#include "worker/comm/gloo/gate.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "proto/base/address.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "proto/base/random_bytes.h"
#include "proto/base/sockets.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

constexpr absl::string_view kMagic = "stretto1";
constexpr size_t kNumber = 32;  // bytes of a fresh number
constexpr size_t kProof = 32;   // of an HMAC-SHA256
constexpr size_t kHello = 8 + 4 + 4 + kNumber;
constexpr char kWelcome = 'W';
const absl::Duration kHandshake = absl::Seconds(limits::kMeetingHandshake.value);
constexpr absl::Duration kPause = absl::Milliseconds(100);  // while no descriptor is left
constexpr absl::Duration kRetry = absl::Milliseconds(50);

std::string FourBytes(int value) {
  std::string out(4, '\0');
  for (size_t i = 0; i < 4; ++i) out[i] = static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

int FromFourBytes(absl::string_view bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(bytes[i] & 0xff) << (8 * i);
  return static_cast<int>(value);
}

// One connection: the rank that came, the rank of the gate, and the number of each.
struct Meeting {
  int from = 0, to = 0;
  std::string number_from, number_to;
};

// `side` keeps an answer of the gate from being one of the peer.
std::string ProofOf(const Membership& self, const Meeting& meeting, absl::string_view side) {
  const std::string text = absl::StrCat(
      side, FourBytes(static_cast<int>(self.group.size())), self.group, FourBytes(self.size),
      FourBytes(meeting.from), FourBytes(meeting.to), meeting.number_from, meeting.number_to);
  std::string proof(kProof, '\0');
  unsigned int bytes = 0;
  STRETTO_CHECK(HMAC(EVP_sha256(), self.secret.data(), static_cast<int>(self.secret.size()),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     reinterpret_cast<unsigned char*>(proof.data()), &bytes) != nullptr);
  STRETTO_CHECK(bytes == kProof);
  return proof;
}

bool Same(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string Text(int error) { return std::generic_category().message(error); }

// Waits until `fd` is ready for `events`; false at the deadline.
bool AwaitReady(int fd, short events, absl::Duration deadline) {
  while (true) {
    const absl::Duration left = deadline - Clock::Real().Monotonic();
    if (left <= absl::ZeroDuration()) return false;
    pollfd entry = {.fd = fd, .events = events, .revents = 0};
    const int n = poll(&entry, 1, static_cast<int>(absl::ToInt64Milliseconds(left)) + 1);
    if (n > 0) return true;
  }
}

bool SendAll(int fd, absl::string_view bytes) {
  // A few dozen bytes always fit into the buffer of a connection that has sent nothing else.
  return send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(bytes.size());
}

// Reads exactly `bytes`; empty if the connection or the time ends before.
std::string ReceiveAll(int fd, size_t bytes, absl::Duration deadline) {
  std::string out;
  while (out.size() < bytes) {
    if (!AwaitReady(fd, POLLIN, deadline)) return "";
    std::string part(bytes - out.size(), '\0');
    const ssize_t n = recv(fd, part.data(), part.size(), MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return "";
    if (n > 0) out.append(part, 0, static_cast<size_t>(n));
  }
  return out;
}

}  // namespace

std::string NewSecret() { return RandomBytes(kSecretBytes); }

// ---- the gate

struct Gate::Visitor {
  FileDescriptor fd;
  absl::Duration deadline;
  std::string received;  // of the present message
  bool answered = false;
  Meeting meeting;
};

Gate::Gate(FileDescriptor listener, FileDescriptor wake, std::string address)
    : listener_(std::move(listener)), wake_(std::move(wake)), address_(std::move(address)) {}

absl::StatusOr<std::unique_ptr<Gate>> Gate::Listen(const std::string& address) {
  ASSIGN_OR_RETURN(const auto addresses, Resolve(address, 0));
  ASSIGN_OR_RETURN(FileDescriptor listener, ListenAt(addresses.front()));
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoStatus(errno, "eventfd");
  ASSIGN_OR_RETURN(const SocketAddress own, LocalAddressOf(listener.get()));
  return std::unique_ptr<Gate>(new Gate(std::move(listener), std::move(wake), own.Text()));
}

Gate::~Gate() {
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof one);
  if (thread_.joinable()) thread_.join();
}

void Gate::Open(Membership self) {
  self_ = std::move(self);
  thread_ = std::thread([this] { Serve(); });
}

absl::StatusOr<FileDescriptor> Gate::Await(int peer, absl::Duration deadline) {
  const MutexLock lock(mu_);
  const absl::Duration left = std::max(absl::ZeroDuration(), deadline - Clock::Real().Monotonic());
  const bool here = arrived_.WaitFor(mu_, absl::ToChronoNanoseconds(left),
                                     [&]() REQUIRES(mu_) { return peers_[peer].valid(); });
  if (here) return std::move(peers_[peer]);
  return absl::DeadlineExceededError("it did not connect in time");
}

void Gate::Serve() {
  while (true) {
    const absl::Duration now = Clock::Real().Monotonic();
    const bool paused = now < pause_until_;
    std::vector<pollfd> entries = {
        {.fd = wake_.get(), .events = POLLIN, .revents = 0},
        {.fd = paused ? -1 : listener_.get(), .events = POLLIN, .revents = 0}};
    for (const auto& visitor : visitors_) {
      entries.push_back({.fd = visitor->fd.get(), .events = POLLIN, .revents = 0});
    }
    absl::Duration wait = paused ? pause_until_ - now : absl::Seconds(3600);
    if (!visitors_.empty()) wait = std::min(wait, visitors_.front()->deadline - now);
    poll(entries.data(), entries.size(),
         static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(wait))) + 1);
    if (entries[0].revents != 0) return;
    std::deque<std::unique_ptr<Visitor>> stay;
    for (size_t i = 0; i < visitors_.size(); ++i) {
      if (entries[i + 2].revents == 0 || Attend(*visitors_[i])) {
        stay.push_back(std::move(visitors_[i]));
      }
    }
    visitors_ = std::move(stay);
    DropOverdue();
    if (entries[1].revents != 0) Accept();
  }
}

void Gate::DropOverdue() {
  while (!visitors_.empty() && visitors_.front()->deadline <= Clock::Real().Monotonic()) {
    Drop(*visitors_.front());
    visitors_.pop_front();
  }
}

void Gate::Accept() {
  FileDescriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const absl::Duration now = Clock::Real().Monotonic();
  if (!fd.valid()) {
    if (IsOutOfDescriptors(errno)) pause_until_ = now + kPause;
    return;
  }
  // A peer needs one turn of the network; whoever has waited longest is hardly one.
  if (static_cast<int64_t>(visitors_.size()) >= limits::kMeetingVisitors.value) {
    Drop(*visitors_.front());
    visitors_.pop_front();
  }
  auto visitor = std::make_unique<Visitor>();
  visitor->fd = std::move(fd);
  visitor->deadline = now + kHandshake;
  visitors_.push_back(std::move(visitor));
}

bool Gate::Attend(Visitor& visitor) {
  const size_t expected = visitor.answered ? kProof : kHello;
  std::string part(expected - visitor.received.size(), '\0');
  const ssize_t n = recv(visitor.fd.get(), part.data(), part.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  if (n <= 0) {
    Drop(visitor);
    return false;
  }
  visitor.received.append(part, 0, static_cast<size_t>(n));
  if (visitor.received.size() < expected) return true;
  if (!visitor.answered) {
    if (Answer(visitor)) return true;
    Drop(visitor);
  } else if (Same(visitor.received, ProofOf(self_, visitor.meeting, "peer"))) {
    LetIn(visitor);
  } else {
    Drop(visitor);
  }
  return false;
}

bool Gate::Answer(Visitor& visitor) {
  const absl::string_view hello = visitor.received;
  Meeting& meeting = visitor.meeting;
  meeting.from = FromFourBytes(hello.substr(8, 4));
  meeting.to = FromFourBytes(hello.substr(12, 4));
  if (hello.substr(0, 8) != kMagic || meeting.to != self_.rank || meeting.from <= self_.rank ||
      meeting.from >= self_.size) {
    return false;
  }
  meeting.number_from = std::string(hello.substr(16));
  meeting.number_to = RandomBytes(kNumber);
  visitor.received.clear();
  visitor.answered = true;
  return SendAll(visitor.fd.get(),
                 absl::StrCat(meeting.number_to, ProofOf(self_, meeting, "gate")));
}

void Gate::LetIn(Visitor& visitor) {
  if (!SendAll(visitor.fd.get(), absl::string_view(&kWelcome, 1))) return;
  const MutexLock lock(mu_);
  // A peer that comes again has lost its connection before.
  peers_[visitor.meeting.from] = std::move(visitor.fd);
  arrived_.NotifyAll();
}

void Gate::Drop(Visitor& visitor) {
  ++strangers_;  // before the visitor can see that it was dropped
  visitor.fd = FileDescriptor();
}

// ---- the peer

namespace {

// A connection without a proof yet. DeadlineExceeded, Unavailable (refused).
absl::StatusOr<FileDescriptor> Dial(const SocketAddress& to, const std::string& address,
                                    absl::Duration deadline) {
  FileDescriptor fd(socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return absl::UnavailableError(absl::StrCat("socket: ", Text(errno)));
  const auto failed = [&](int error) {
    return absl::UnavailableError(absl::StrCat("connect ", address, ": ", Text(error)));
  };
  if (connect(fd.get(), to.get(), to.bytes) == 0) return fd;
  if (errno != EINPROGRESS) return failed(errno);
  if (!AwaitReady(fd.get(), POLLOUT, deadline)) {
    return absl::DeadlineExceededError(absl::StrCat("connect ", address, ": Timed out"));
  }
  int error = 0;
  socklen_t bytes = sizeof error;
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
  if (error != 0) return failed(error);
  return fd;
}

enum class Outcome { kWelcome, kDropped, kStranger };

Outcome Introduce(int fd, const Membership& self, int peer, absl::Duration deadline) {
  Meeting meeting{
      .from = self.rank, .to = peer, .number_from = RandomBytes(kNumber), .number_to = {}};
  if (!SendAll(fd,
               absl::StrCat(kMagic, FourBytes(self.rank), FourBytes(peer), meeting.number_from))) {
    return Outcome::kDropped;
  }
  const std::string answer = ReceiveAll(fd, kNumber + kProof, deadline);
  if (answer.empty()) return Outcome::kDropped;
  meeting.number_to = answer.substr(0, kNumber);
  if (!Same(answer.substr(kNumber), ProofOf(self, meeting, "gate"))) return Outcome::kStranger;
  if (!SendAll(fd, ProofOf(self, meeting, "peer"))) return Outcome::kDropped;
  const std::string welcome = ReceiveAll(fd, 1, deadline);
  return welcome == std::string(1, kWelcome) ? Outcome::kWelcome : Outcome::kDropped;
}

}  // namespace

absl::StatusOr<FileDescriptor> ConnectToGate(const std::string& address, const Membership& self,
                                             int peer, absl::Duration deadline) {
  ASSIGN_OR_RETURN(const Address parsed, ParseAddress(address));
  ASSIGN_OR_RETURN(const auto addresses, Resolve(parsed.host, parsed.port));
  while (true) {
    ASSIGN_OR_RETURN(FileDescriptor fd, Dial(addresses.front(), address, deadline));
    // A peer may take its time: it opens its gate when it has the secret. Its own limit is
    // for visitors that it has accepted.
    const Outcome outcome = Introduce(fd.get(), self, peer, deadline);
    if (outcome == Outcome::kWelcome) return fd;
    if (outcome == Outcome::kStranger) {
      return absl::UnavailableError(
          absl::StrCat(address, " did not prove the secret of the group"));
    }
    if (Clock::Real().Monotonic() + kRetry >= deadline) {
      return absl::DeadlineExceededError(absl::StrCat(address, " let nobody in: Timed out"));
    }
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(kRetry));
  }
}

}  // namespace stretto
