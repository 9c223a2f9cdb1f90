// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hands connections to gRPC on a thread of its own. gRPC 1.51 reads on the thread that brings a
// connection for as long as there is something to read, with a lock held that every connection
// needs. Whoever sends without a pause from the beginning would keep that thread for ever, and
// nobody else would be let in.

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
  // Far longer than a handshake keeps the thread, which waits for nothing of its peer.
  static constexpr absl::Duration kMost = absl::Seconds(limits::kUnpausedSeconds.value);

  explicit Handover(Take take);
  // Closes the connections that wait, and ends the one in progress.
  ~Handover();
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;

  // Takes over the connection's descriptor.
  void Add(int listener, Connection connection);
  // Ends the connection in progress if it is that for longer than kMost, and returns it.
  std::optional<Connection> EndLong();

 private:
  struct Arrived {
    int listener = 0;
    Connection connection;
  };
  void Run();

  const Take take_;
  Mutex mu_;
  CondVar changed_;
  std::deque<Arrived> waiting_ GUARDED_BY(mu_);
  std::optional<Connection> current_ GUARDED_BY(mu_);
  absl::Duration begun_ GUARDED_BY(mu_);  // current_
  bool ending_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace stretto::service
