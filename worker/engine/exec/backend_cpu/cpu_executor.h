// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs step programs on CPU cores: one thread per lane, hand-over by atomic wait and notify.

#include <array>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"

namespace stretto {

class Communicator;
class Ops;

struct CpuExecutorOptions {
  // By group index of the program; borrowed, must outlive the executor. A group of one rank needs
  // none (null).
  std::vector<Communicator*> communicators;
  OnBegin on_begin;               // may be empty
  PerArena<Arena> borrowed = {};  // as ExecutorRequest::borrowed
};

// `program` must have been verified with planned memory; `ops` is borrowed. The first lane runs on
// the thread that calls Run. Memory of its own starts as zeros. Errors: ResourceExhausted when the
// arenas cannot be allocated, naming their size; InvalidArgument when a communicator is missing or
// is of another size than its group, or when borrowed memory is too small.
absl::StatusOr<std::unique_ptr<Executor>> MakeCpuExecutor(Program program, const ArenaBytes& arenas,
                                                          Ops* ops, CpuExecutorOptions options);

}  // namespace stretto
