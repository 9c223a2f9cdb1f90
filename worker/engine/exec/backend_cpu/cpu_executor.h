// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs step programs on CPU cores: one thread per lane, which hand over by atomic wait and notify.

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
  // By group index of the program; borrowed, must outlive the executor. Null for a group of one
  // rank, which needs none.
  std::vector<Communicator*> communicators;
  OnBegin on_begin;               // may be empty
  PerArena<Arena> borrowed = {};  // as ExecutorRequest::borrowed
};

// Makes an executor. `program` must have been verified with planned memory; `ops` is borrowed. The
// first lane runs on the thread that calls Run. Memory that is not borrowed starts as zeros.
// Errors: ResourceExhausted when an arena cannot be allocated, naming its size; InvalidArgument
// when a communicator is missing or has another size than its group, or when borrowed memory is too
// small.
absl::StatusOr<std::unique_ptr<Executor>> MakeCpuExecutor(Program program, const ArenaBytes& arenas,
                                                          Ops* ops, CpuExecutorOptions options);

}  // namespace stretto
