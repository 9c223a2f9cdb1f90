// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs a step program. The backend prepared everything; Run only works through the lanes.

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/tensor_view.h"
#include "worker/engine/program/program.h"

namespace stretto {

// The memory of one class, wherever the backend computes. Shared, as executors that use the same
// end in any order.
struct Arena {
  std::shared_ptr<void> memory;  // null: none
  int64_t bytes = 0;
};

// When an operation ran, in nanoseconds of the executor's monotonic clock. For a collective the
// start is when its lane reached it with its data ready.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
};

// Called as a lane begins an operation (index in the program): for a flight recorder. Must not
// block. A CPU calls it on the lane's own thread, for every operation. A device is looked at from
// the thread in Run while that waits, and only the first operation of what a lane is in is told.
using OnBegin = std::function<void(OpId op, int64_t now_nanoseconds)>;

// One rank's program on one backend. Not thread-safe, except Cancel.
class Executor {
 public:
  virtual ~Executor() = default;

  // One step, from the host's inputs to its outputs. Our own code allocates nothing, logs nothing
  // and holds no lock across an operation. On an error the step's results are garbage and the
  // executor is dead: later calls return the same error. Errors: those of the Communicator
  // (Unavailable, DeadlineExceeded, Aborted) and the device's, naming the operation.
  virtual absl::Status Run() = 0;

  // An input or output of the program (ArenaClass), in memory of the host; anything else is a
  // CHECK. Between calls of Run the host writes inputs and reads outputs there.
  virtual TensorView HostView(BufferId buffer) = 0;

  // Any buffer's contents, in memory of the host. Where the backend computes in host memory it is
  // that memory, for as long as the executor lives; else a copy until the next call of Read or Run.
  // Between calls of Run. Errors: the device's.
  virtual absl::StatusOr<TensorView> Read(BufferId buffer) = 0;

  // Sets any buffer: `fill` writes all of it into the host memory that it is given, which holds
  // what it holds. Between calls of Run. Errors: those of `fill`, the device's.
  using Fill = absl::FunctionRef<absl::Status(TensorView)>;
  virtual absl::Status Write(BufferId buffer, Fill fill) = 0;

  // For ExecutorRequest::borrowed of another executor of this backend; not of inputs and outputs.
  // None from an executor that has no memory.
  virtual Arena Lend(ArenaClass /*arena*/) const { return {}; }

  // Of the last Run, by operation index.
  virtual absl::Span<const Interval> intervals() const = 0;

  // CPU seconds that communication lanes burnt in the last Run.
  virtual double communication_cpu_seconds() const = 0;

  // Makes a blocked Run fail with Aborted. Thread-safe.
  virtual void Cancel() = 0;
};

// Now, on the clock of Interval.
int64_t NowNanoseconds();

}  // namespace stretto
