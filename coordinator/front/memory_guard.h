// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds what connections make this process take, where gRPC does not: a block of headers without an
// end, or streams that are reset as fast as they are opened. What a connection costs is gRPC's
// secret, but whoever fills the memory sends a lot. So while the memory is above a bound and grows,
// the connection that has sent most lately is closed, one at a time.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
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

// What the guard sees of the process and does to it; a test has its own.
class Surroundings {
 public:
  virtual ~Surroundings() = default;
  // Bytes of memory that the process has, or 0 if that is not known.
  virtual int64_t Resident() = 0;
  // Bytes that have arrived on the connection since it began; 0 if it has been closed.
  virtual int64_t Received(const Connection& connection) = 0;
  // Ends the connection, unless its descriptor is another one's by now.
  virtual void Close(const Connection& connection) = 0;

  // Those of this process. Thread-safe.
  static Surroundings& Real();
};

// Not thread-safe.
class MemoryGuard {
 public:
  static constexpr absl::Duration kInterval = absl::Milliseconds(50);  // between two looks
  // After one was closed: gRPC needs a moment to free what it had.
  static constexpr absl::Duration kPause = absl::Milliseconds(200);
  // Whoever has sent less within about a second is never closed: sessions of workers without reports,
  // watches and the calls of people are far below.
  static constexpr int64_t kQuietBytes = int64_t{64} << 10;

  // Borrows `surroundings`.
  MemoryGuard(int64_t bound, Surroundings& surroundings)
      : bound_(bound), surroundings_(surroundings) {}

  // Call it often. Between two intervals it does nothing.
  void Look(absl::Duration now, const std::vector<Connection>& open);

  int64_t closed() const { return closed_; }

 private:
  struct Sent {
    int64_t received = 0;  // since the connection began
    double lately = 0;     // the same, of which a sixteenth is forgotten at each look
  };
  void Measure(const std::vector<Connection>& open);
  // Closes the connection that has sent most lately, if that is not little.
  bool CloseBusiest(const std::vector<Connection>& open, int64_t resident);

  const int64_t bound_;
  Surroundings& surroundings_;
  absl::Duration looked_ = -absl::InfiniteDuration();
  absl::Duration closed_at_ = -absl::InfiniteDuration();
  int64_t lowest_ = 0;  // resident bytes since the last one was closed; 0: nobody has looked
  std::map<uint64_t, Sent> sent_;  // by socket; empty below the bound
  int64_t closed_ = 0;
  LineRate lines_;  // about them
};

}  // namespace stretto::service
