// SPDX-License-Identifier: Apache-2.0

// A hostile network that wants the coordinator's memory, from one connection at a time, for as long
// as it takes. While an attack lasts, the memory is looked at and healthy clients ask.

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "proto/base/limits.h"
#include "tests/integration/hostile/hostile_test.h"
#include "tests/integration/hostile/http2_frames.h"

namespace stretto::integration {
namespace {

using namespace http2;  // NOLINT: frames

constexpr int64_t kMostBytes =
    2 * limits::kMemoryBytes.value;  // resident, at any time of an attack

class Memory : public HostileTest {
 protected:
  // Sends `begin` and then the parts 0, 1, ... on one connection, as fast as it takes them, and
  // reads the answers; begins again on another when it is closed.
  void Attack(absl::Duration time, const std::string& begin,
              const std::function<std::string(uint32_t)>& part) {
    std::atomic<bool> ended{false};
    std::atomic<int64_t> bytes{0}, connections{0};
    std::thread attacker([&] {
      while (!ended) {
        const FileDescriptor fd = Dial(cluster_.grpc_port_);
        ++connections;
        std::string next = begin;
        for (uint32_t i = 0; !ended && SendAll(fd, next, ended); next = part(i++)) {
          bytes += static_cast<int64_t>(next.size());
        }
      }
    });
    int64_t most = 0;
    absl::Duration longest;
    for (const absl::Time end = absl::Now() + time; absl::Now() < end;) {
      const absl::Time before = absl::Now();
      EXPECT_EQ(cluster_.GetJob("kept").progress().steps(), 5);
      longest = std::max(longest, absl::Now() - before);
      for (int i = 0; i < 5; ++i) {
        most = std::max(most, cluster_.CoordinatorBytes());
        absl::SleepFor(absl::Milliseconds(50));
      }
    }
    ended = true;
    attacker.join();
    Saw(absl::StrFormat(
        "%d MiB sent on %d connections, at most %d MiB resident, healthy clients "
        "answered within %.2f s",
        bytes >> 20, connections.load(), most >> 20, absl::ToDoubleSeconds(longest)));
    EXPECT_LT(most, kMostBytes);
    EXPECT_LT(longest, absl::Seconds(1));
  }

 private:
  // Whether the connection took all of it.
  static bool SendAll(const FileDescriptor& fd, absl::string_view bytes,
                      const std::atomic<bool>& ended) {
    while (!bytes.empty()) {
      pollfd entry = {.fd = fd.get(), .events = POLLOUT | POLLIN, .revents = 0};
      if (ended || poll(&entry, 1, 100) < 0) return false;
      char answer[1 << 16];
      if ((entry.revents & POLLIN) != 0 && recv(fd.get(), answer, sizeof answer, 0) <= 0) {
        return false;
      }
      if ((entry.revents & POLLOUT) == 0) continue;
      const ssize_t n = send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n < 0 && errno != EAGAIN && errno != EINTR) return false;
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
};

// Streams that are opened and reset, `count` of them from stream 2 * first + 1 on. With a message,
// the call begins.
std::string Resets(uint32_t first, uint32_t count, absl::string_view message) {
  std::string out;
  for (uint32_t i = first; i < first + count; ++i) {
    const uint32_t stream = 2 * i + 1;
    absl::StrAppend(&out, Frame(kHeaders, kEndHeaders, stream, Call(kGet)));
    if (!message.empty()) {
      absl::StrAppend(
          &out, Frame(kData, kEndStream, stream,
                      absl::StrCat(Number(0, 1), Number(static_cast<uint32_t>(message.size())),
                                   message)));
    }
    absl::StrAppend(&out, Frame(kReset, 0, stream, Number(8)));
  }
  return out;
}

TEST_F(Memory, RapidResetOfStreams) {
  Try("rapid reset for 40 s: calls that are reset before they say what they ask");
  Attack(absl::Seconds(40), Begin(), [](uint32_t i) { return Resets(100 * i, 100, ""); });
}

TEST_F(Memory, RapidResetOfCalls) {
  Try("rapid reset for 40 s: calls that are reset as soon as they have begun");
  v1alpha1::GetJobRequest request;
  request.set_name("jobs/victim");
  Attack(absl::Seconds(40), Begin(), [message = request.SerializeAsString()](uint32_t i) {
    return Resets(100 * i, 100, message);
  });
}

TEST_F(Memory, ContinuationFlood) {
  Try("a block of headers that continues for 5 s, of a peer that acknowledges no settings");
  std::string headers;  // small ones cost most
  while (headers.size() < 16'000) headers += Header("a", "b");
  const std::string frame = Frame(kContinuation, 0, 1, headers);
  Attack(absl::Seconds(5), absl::StrCat(Begin(), Frame(kHeaders, 0, 1, http2::Call(kGet))),
         [&frame](uint32_t) { return frame; });
}

}  // namespace
}  // namespace stretto::integration
