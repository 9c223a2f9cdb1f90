// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds what connections make this process take, where gRPC does not: a block of headers without
// an end, or streams that are reset as fast as they are opened. What a connection costs is gRPC's
// secret, but whoever fills the memory sends a lot. So while the memory is above three quarters of
// a bound and grows, the connection that has sent most lately is closed, one at a time. Three
// quarters, because gRPC copies a block of headers when its connection ends, which takes more than
// the block did.
//
// A flood that gRPC frees as fast as it comes does not fill the memory. But it keeps one of gRPC's
// few threads for as long as it lasts, and calls of others wait behind it. So a connection that
// sends faster than gRPC reads is closed too. Messages never do, because their sender waits for
// gRPC's window of 64 KiB.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/base/limits.h"
#include "proto/base/line_rate.h"

namespace stretto::service {

// A connection that belongs to gRPC, which may have closed it.
struct Connection {
  int fd = 0;
  uint64_t socket = 0;  // number of the socket behind fd, which no later connection has
  std::string machine = {};
};

// The number of the open socket behind `fd`; 0 for anything else.
uint64_t SocketBehind(int fd);

// Bytes of a connection; 0 if it has been closed.
struct Traffic {
  int64_t received = 0;  // that have arrived since it began
  int64_t waiting = 0;   // of them, those that have not been read
};

// What the guard sees of the process and does to it; a test has its own.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  // Bytes of memory that the process has, or 0 if that is not known.
  virtual int64_t Resident() = 0;
  // Bytes of it that are in use: what has been freed stays resident for a while.
  virtual int64_t Allocated() = 0;
  // CPU time that the process has used.
  virtual absl::Duration CpuTime() = 0;
  virtual Traffic Of(const Connection& connection) = 0;
  // Resets the connection, unless its descriptor is another one's by now.
  virtual void Close(const Connection& connection) = 0;

  // Those of this process. Thread-safe.
  static Surroundings& Real();
};

// Not thread-safe.
class MemoryGuard {
 public:
  static constexpr absl::Duration kInterval = absl::Milliseconds(25);  // between two looks
  // After one was closed: gRPC needs a moment to free what it had.
  static constexpr absl::Duration kPause = absl::Milliseconds(100);
  // For this long after one was closed, connections that came since are closed at any level of the
  // memory, if it grows: whoever is closed connects again, and gRPC takes the longer to end a
  // connection the more it has sent.
  static constexpr absl::Duration kAlert = absl::Seconds(10);
  // Between two times that the kernel is asked about all connections, for each of them: asking then
  // takes a few percent of a core at most.
  static constexpr absl::Duration kPerConnection = absl::Microseconds(100);
  // Whoever has sent less within about a second is never closed: sessions of workers without
  // reports, watches and the calls of people are far below.
  static constexpr int64_t kQuietBytes = int64_t{64} << 10;
  // Whoever has more waiting at every look, for this long, sends faster than it is read; the short
  // time is for those that came while others were closed.
  static constexpr int64_t kFloodBytes = limits::kUnreadBytes.value;
  static constexpr absl::Duration kFlood = absl::Milliseconds(250);
  static constexpr absl::Duration kFloodAgain = absl::Milliseconds(50);
  // A process that uses less of a core is not flooded, and nobody is asked. It is busy for a while
  // after it has used more. Its cgroup may leave it a quarter of a core.
  static constexpr double kBusyShare = 0.1;
  static constexpr absl::Duration kBusy = absl::Seconds(1);

  // Borrows `surroundings`.
  MemoryGuard(int64_t bound, Surroundings& surroundings)
      : bound_(bound), surroundings_(surroundings) {}

  // Call it often. Between two intervals it does nothing.
  void Look(absl::Duration now, const std::vector<Connection>& open);

  int64_t closed() const { return closed_; }

 private:
  struct Sent {
    int64_t received = 0;  // since the connection began
    double lately = 0;     // the same, of which a part is forgotten each time
    bool young = false;    // it came while others were closed
    // Of the first look since which more than kFloodBytes waited.
    absl::Duration waits_since = absl::InfiniteDuration();
  };
  // Whether connections have been closed lately.
  bool alert(absl::Duration now) const { return now - closed_at_ <= kAlert; }
  void NoteCpuTime(absl::Duration now);
  void Measure(absl::Duration now, const std::vector<Connection>& open);
  // Closes those that flood, and returns whether there are any.
  bool CloseFloods(absl::Duration now, const std::vector<Connection>& open);
  // Closes the connection that has sent most lately, if that is not little; unless the memory is
  // `full`, of the young ones.
  bool CloseBusiest(const std::vector<Connection>& open, int64_t resident, bool full);

  void Close(const Connection& connection, const std::string& why);

  const int64_t bound_;
  Surroundings& surroundings_;
  absl::Duration looked_ = -absl::InfiniteDuration();
  absl::Duration cpu_time_;  // at that look
  absl::Duration busy_at_ = -absl::InfiniteDuration();
  absl::Duration measured_ = -absl::InfiniteDuration();
  absl::Duration closed_at_ = -absl::InfiniteDuration();
  int64_t lowest_ = 0;  // bytes in use since the last one was closed; 0: nobody has looked
  std::map<uint64_t, Sent> sent_;  // by socket; empty while nobody is asked
  int64_t closed_ = 0;
  LineRate lines_;  // about them
};

}  // namespace stretto::service
