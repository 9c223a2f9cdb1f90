// SPDX-License-Identifier: Apache-2.0
#pragma once
// Keeps the host from running far ahead of a stream. A driver takes about a thousand commands for
// one; the next call blocks until there is room, and behind a collective whose peer died there
// never will be any. So before that the host waits itself, where it can see peers and deadlines.

#include <cuda_runtime.h>

#include <array>
#include <functional>

#include "absl/status/statusor.h"
#include "worker/engine/exec/backend_cuda/handles.h"

namespace stretto::cuda {

// Returns when an event has come, or why it will not.
using AwaitEvent = std::function<absl::Status(cudaEvent_t)>;

// Commands that were put on one stream, counted in batches.
class InFlight {
 public:
  static constexpr int kBatch = 256;  // at most three batches are on the stream

  // `stream` is borrowed.
  static absl::StatusOr<InFlight> Create(cudaStream_t stream);

  // That many more were put on the stream; no more than kBatch. Errors: those of `await`.
  absl::Status Add(int commands, const AwaitEvent& await);

 private:
  cudaStream_t stream_ = nullptr;
  std::array<Event, 2> ends_;  // of the last two batches
  int commands_ = 0;           // behind the last of them
  size_t batch_ = 0;
};

}  // namespace stretto::cuda
