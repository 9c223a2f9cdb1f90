// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps the host from running too far ahead of a stream. A driver queues about a thousand commands
// per stream. The next call then blocks until there is room, which never happens behind a
// collective whose peer has died. So the host waits earlier, in a place where it can see peers and
// deadlines.

#include <cuda_runtime.h>

#include <array>
#include <functional>

#include "absl/status/statusor.h"
#include "worker/engine/exec/backend_cuda/handles.h"

namespace stretto::cuda {

// Waits for an event; returns an error when the event will not complete.
using AwaitEvent = std::function<absl::Status(cudaEvent_t)>;

// The commands enqueued on one stream, counted in batches.
class InFlight {
 public:
  static constexpr int kBatch = 256;  // at most three batches are on the stream

  // `stream` is borrowed.
  static absl::StatusOr<InFlight> Create(cudaStream_t stream);

  // Counts `commands` more on the stream, at most kBatch. Errors: those of `await`.
  absl::Status Add(int commands, const AwaitEvent& await);

 private:
  cudaStream_t stream_ = nullptr;
  std::array<Event, 2> ends_;  // the ends of the last two batches
  int commands_ = 0;           // enqueued after the last of them
  size_t batch_ = 0;
};

}  // namespace stretto::cuda
