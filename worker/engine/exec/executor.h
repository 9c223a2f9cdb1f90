// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a step program. Everything is prepared beforehand; Run only works through the lanes.

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/tensor_view.h"
#include "worker/engine/program/program.h"

namespace stretto {

// The memory of one class, in the memory space of the backend. Shared, because executors that use
// the same memory may be destroyed in any order.
struct Arena {
  std::shared_ptr<void> memory;  // null: none
  int64_t bytes = 0;
};

// The time of an operation, in nanoseconds of the executor's monotonic clock. A collective begins
// when its lane reaches it with its data ready.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
};

// Called when a lane begins an operation (an index into the program), for a flight recorder. It
// must not block. A CPU backend calls it on the lane's own thread, for every operation. A device
// backend calls it from the thread in Run while that thread waits, and only for the first operation
// of each segment that a lane enters.
using OnBegin = std::function<void(OpId op, int64_t now_nanoseconds)>;

// One rank's program on one backend. Not thread-safe, except Cancel.
class Executor {
 public:
  virtual ~Executor() = default;

  // Runs one step, from the host's inputs to its outputs. Our own code allocates nothing, logs
  // nothing and holds no lock across an operation. After an error the step's results are undefined
  // and the executor is dead: later calls return the same error. Errors: those of the Communicator
  // (Unavailable, DeadlineExceeded, Aborted) and those of the device, naming the operation.
  virtual absl::Status Run() = 0;

  // Returns an input or output of the program (ArenaClass) in host memory; CHECKs that it is one.
  // Between calls of Run the host writes inputs and reads outputs there.
  virtual TensorView HostView(BufferId buffer) = 0;

  // Returns the contents of any buffer in host memory. Call it between calls of Run. A backend that
  // computes in host memory returns that memory, valid for the life of the executor; others return
  // a copy, valid until the next call of Read or Run. Errors: those of the device.
  virtual absl::StatusOr<TensorView> Read(BufferId buffer) = 0;

  // Sets any buffer. `fill` must overwrite every element of the host memory that it receives; the
  // previous contents are unspecified. Call it between calls of Run. Errors: those of `fill` and of
  // the device.
  using Fill = absl::FunctionRef<absl::Status(TensorView)>;
  virtual absl::Status Write(BufferId buffer, Fill fill) = 0;

  // Sets any buffer to zeros, without a copy from the host where there is a device. Call it between
  // calls of Run. Errors: those of the device.
  virtual absl::Status Clear(BufferId buffer) {
    return Write(buffer, [](TensorView view) {
      std::memset(view.data, 0, view.bytes());
      return absl::OkStatus();
    });
  }

  // Returns memory for ExecutorRequest::borrowed of another executor of this backend; not that of
  // inputs and outputs. An executor without memory returns an empty Arena.
  virtual Arena Lend(ArenaClass /*arena*/) const { return {}; }

  // Returns the intervals of the last Run, by operation index.
  virtual absl::Span<const Interval> intervals() const = 0;

  // Returns the CPU seconds that communication lanes used in the last Run.
  virtual double communication_cpu_seconds() const = 0;

  // Makes a blocked Run return Aborted. Thread-safe.
  virtual void Cancel() = 0;
};

// Returns the present time on the clock of Interval.
int64_t NowNanoseconds();

}  // namespace stretto
