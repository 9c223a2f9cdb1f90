// SPDX-License-Identifier: Apache-2.0
#pragma once
// Transfers that are posted on a mesh, awaited in any order and abandoned together.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>

#include "absl/time/time.h"
#include "gloo/transport/context.h"
#include "gloo/transport/unbound_buffer.h"
#include "proto/base/mutex.h"
#include "worker/comm/call_watch.h"

namespace stretto {

// One thread posts and awaits; only Abort may come from any thread. Post and Await throw gloo's
// exceptions, and std::runtime_error once aborted.
class Posts {
 public:
  // `mesh` may be null in a group of one rank. `watch` learns whom Await waits for; it is borrowed
  // and may be null.
  Posts(std::shared_ptr<gloo::transport::Context> mesh, int rank, int size, CallWatch* watch)
      : mesh_(std::move(mesh)), rank_(rank), size_(size), watch_(watch) {}

  // Posts a send or a receive; does nothing for 0 bytes or for this rank itself. `data` belongs to
  // the mesh until the transfer is cleared. Transfers are numbered in the order of their posts.
  void Post(int peer, uint64_t slot, void* data, int64_t bytes, bool receive);
  // The number of the transfer that is posted next.
  size_t next() const { return first_ + posted_.size(); }
  // Waits for a transfer, until `deadline` (Clock::Monotonic).
  void Await(size_t number, absl::Duration deadline);
  // Forgets the transfers before this one.
  void ClearBefore(size_t number);

  // The peer of the last Post or Await.
  int peer() const { return peer_; }
  bool aborted() const { return aborted_; }
  // Wakes Await and makes all later calls throw.
  void Abort();
  // Closes every connection and forgets the posted transfers: nothing touches their data
  // afterwards.
  void Close();

 private:
  struct Posted {
    int peer;
    bool receive;
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
  };
  void CloseAll();

  const std::shared_ptr<gloo::transport::Context> mesh_;  // shared with gloo's own objects
  const int rank_, size_;
  CallWatch* const watch_;
  std::atomic<bool> aborted_{false};
  int peer_ = -1;
  Mutex mu_;
  // The calling thread changes it under mu_, so that Abort can read it, and reads it without: no
  // annotation says this.
  std::deque<Posted> posted_;
  size_t first_ = 0;  // the number of the first one in posted_
};

}  // namespace stretto
