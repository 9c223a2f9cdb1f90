// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hands connections to gRPC on a thread of its own. gRPC 1.51 reads on the thread that brings a
// connection for as long as there is something to read, with a lock held that every connection
// needs. Whoever sends without a pause from the beginning would keep that thread for ever, and
// nobody else would be let in.

#include <time.h>

#include <deque>
#include <functional>
#include <optional>
#include <thread>

#include "absl/time/time.h"
#include "coordinator/front/memory_guard.h"
#include "proto/base/limits.h"
#include "proto/base/mutex.h"

namespace stretto::service {

// Thread-safe.
class Handover {
 public:
  // Takes over `connection`, which came in at `listener`. Called on one thread.
  using Take = std::function<void(int listener, int connection)>;
  // Of the thread's CPU time.
  static constexpr absl::Duration kMost = absl::Milliseconds(limits::kUnpausedMilliseconds.value);

  explicit Handover(Take take);
  // Closes the connections that wait, and ends the one in progress.
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  // Takes over the connection's descriptor.
  void Add(int listener, Connection connection);
  // Ends the connection in progress if it has taken more than kMost, and returns it. A handshake
  // may take as long on a slow machine, so whoever has sent less than kQuietBytes of MemoryGuard is
  // let alone.
  std::optional<Connection> EndLong();
  // Whether a connection is in progress.
  bool busy();

 private:
  struct Arrived {
    int listener = 0;
    Connection connection;
  };
  void Run();
  absl::Duration CpuTime() const REQUIRES(mu_);

  const Take take_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Arrived> waiting_ GUARDED_BY(mu_);
  std::optional<Connection> current_ GUARDED_BY(mu_);
  absl::Duration begun_ GUARDED_BY(mu_);                       // current_: CpuTime
  clockid_t clock_ GUARDED_BY(mu_) = CLOCK_THREAD_CPUTIME_ID;  // of the thread, once it runs
  bool ending_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stretto::service
