#pragma once
// Runs a step program. The backend prepared everything; Run only works through the lanes.

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/tensor_view.h"

namespace stretto {

// When an operation ran, in nanoseconds of the executor's monotonic clock. For a collective the
// start is when its lane reached it with its data ready.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;
};

// Called as a lane begins an operation (index in the program), on the lane's own thread: for a
// flight recorder. Must not block.
using OnBegin = std::function<void(int op, int64_t now_nanoseconds)>;

// One rank's program on one backend. Not thread-safe, except Cancel.
class Executor {
 public:
  virtual ~Executor() = default;

  // One step, from the host's inputs to its outputs. Our own code allocates nothing, logs nothing
  // and holds no lock across an operation. On an error the step's results are garbage and the
  // executor is dead: later calls return the same error. Errors: those of the Communicator
  // (Unavailable, DeadlineExceeded, Aborted), naming the operation.
  virtual absl::Status Run() = 0;

  // A buffer of the program, in host memory or reachable from it. Valid between calls of Run.
  virtual TensorView View(int buffer) = 0;

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
