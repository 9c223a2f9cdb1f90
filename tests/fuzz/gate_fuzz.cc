// SPDX-License-Identifier: Apache-2.0

// The handshake of ranks. Whatever a stranger sends, the gate drops it, and whatever a stranger
// answers, a rank takes it for no peer: neither knows the secret. The input "a friend" is a rank
// that does, and is let in, after a crowd of visitors that say nothing has come and gone. A rank
// that nobody lets in tries again until its time is over.
#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "proto/base/address.h"
#include "proto/base/check.h"
#include "proto/base/clock.h"
#include "proto/base/limits.h"
#include "proto/base/sockets.h"
#include "tests/fuzz/connection.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/comm/gloo/gate.h"

namespace {

using stretto::FileDescriptor;

stretto::Membership Member(int rank) {
  return {.group = "tp", .rank = rank, .size = 4, .secret = std::string(32, 's')};
}

class OpenGate {
 public:
  OpenGate() : gate_(*stretto::Gate::Listen("127.0.0.1")) {
    gate_->Open(Member(1));
    port_ = stretto::ParseAddress(gate_->address())->port;
  }
  void LetIn() {
    const absl::Duration deadline = stretto::Clock::Real().Monotonic() + absl::Seconds(10);
    STRETTO_CHECK(stretto::ConnectToGate(gate_->address(), Member(2), 1, deadline).ok());
    STRETTO_CHECK(gate_->Await(2, deadline).ok());
  }
  // One more than may be there at once: the first is dropped for the last.
  void Crowd() {
    const int64_t before = gate_->strangers(), most = stretto::limits::kMeetingVisitors.value;
    std::vector<FileDescriptor> crowd;
    for (int64_t i = 0; i <= most; ++i) crowd.push_back(stretto::fuzz::Connect(port_));
    STRETTO_CHECK(stretto::fuzz::ReadToTheEnd(crowd.front()).empty());
    STRETTO_CHECK(gate_->strangers() == before + 1);
    crowd.clear();
    while (gate_->strangers() != before + 1 + most) std::this_thread::yield();
  }
  void Visit(absl::string_view bytes) {
    const int64_t before = gate_->strangers();
    const FileDescriptor fd = stretto::fuzz::Connect(port_);
    stretto::fuzz::SendAll(fd, bytes);
    shutdown(fd.get(), SHUT_WR);
    const std::string answer = stretto::fuzz::ReadToTheEnd(fd);
    STRETTO_CHECK(answer.size() == 0 || answer.size() == 64);  // never welcome
    while (gate_->strangers() == before) std::this_thread::yield();
    STRETTO_CHECK(!gate_->Await(3, stretto::Clock::Real().Monotonic()).ok());
  }

 private:
  const std::unique_ptr<stretto::Gate> gate_;
  int port_ = 0;
};

// Lets everybody in and answers with the given bytes.
class Stranger {
 public:
  Stranger() : listener_(*stretto::ListenAt(stretto::Resolve("127.0.0.1", 0)->front())) {
    STRETTO_CHECK(fcntl(listener_.get(), F_SETFL, 0) == 0);  // accept waits
    address_ = stretto::LocalAddressOf(listener_.get())->Text();
  }
  void Deceive(absl::string_view bytes) {
    std::thread answers([this, bytes] {
      const FileDescriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!fd.valid()) return;
      stretto::fuzz::ResetAtTheEnd(fd);
      stretto::fuzz::SendAll(fd, bytes);
      shutdown(fd.get(), SHUT_WR);
      stretto::fuzz::ReadToTheEnd(fd);
    });
    // Shorter than the pause before another try.
    STRETTO_CHECK(!Try(absl::Milliseconds(40)).ok());
    answers.join();
  }
  // A second try comes after the pause, and nobody is there to answer it.
  void TurnAway() {
    std::thread turns_away([this] {
      const FileDescriptor fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      stretto::fuzz::ResetAtTheEnd(fd);
    });
    STRETTO_CHECK(absl::IsDeadlineExceeded(Try(absl::Milliseconds(200))));
    turns_away.join();
  }

 private:
  absl::Status Try(absl::Duration patience) {
    const absl::Duration deadline = stretto::Clock::Real().Monotonic() + patience;
    return stretto::ConnectToGate(address_, Member(2), 1, deadline).status();
  }

  FileDescriptor listener_;
  std::string address_;
};

absl::Status ConnectToNobody() {
  FileDescriptor listener = *stretto::ListenAt(stretto::Resolve("127.0.0.1", 0)->front());
  const std::string address = stretto::LocalAddressOf(listener.get())->Text();
  listener = FileDescriptor();
  const absl::Duration deadline = stretto::Clock::Real().Monotonic() + absl::Seconds(10);
  return stretto::ConnectToGate(address, Member(2), 1, deadline).status();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Never destroyed: OpenSSL ends before what is static here.
  static OpenGate& gate = *new OpenGate;
  static Stranger& stranger = *new Stranger;
  const absl::string_view bytes = stretto::fuzz::TextOf(data, size);
  if (bytes == "a friend") {
    gate.LetIn();
    gate.Crowd();
    Stranger().TurnAway();
    STRETTO_CHECK(absl::IsUnavailable(ConnectToNobody()));
  }
  gate.Visit(bytes);
  stranger.Deceive(bytes);
  return 0;
}
