// SPDX-License-Identifier: Apache-2.0
#pragma once
// The seam between a rank and the machine that computes for it (DESIGN section 7). The CPU's is
// linked in; that of a vendor lies in a plug-in.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"

namespace stretto {

class Communicator;
class DeviceCommunicator;

// A rank's way to its peers in a group: by host memory for a backend that computes there, else by
// the device's. Borrowed. Both null for a group of one rank.
struct GroupLink {
  Communicator* host = nullptr;
  DeviceCommunicator* device = nullptr;
};

struct ExecutorRequest {
  StepProgram step = {};
  Program program = {};  // its expansion, verified with planned memory
  ArenaBytes arenas = {};
  // By class: memory of another executor of this backend (Executor::Lend) to work in, instead of
  // memory of its own. The two do not run at once, and what one leaves there the other finds.
  PerArena<Arena> borrowed = {};
  std::vector<GroupLink> links = {};  // by group index of the program
  OnBegin on_begin = {};              // may be empty
};

// One device, or the cores of this process. Not thread-safe; executors it made outlive no backend.
class Backend {
 public:
  virtual ~Backend() = default;

  // For people: what computes, and with which libraries.
  virtual std::string Describe() const = 0;

  // Bytes that arenas may take, as of now. Errors: the system's.
  virtual absl::StatusOr<int64_t> FreeMemory() const = 0;

  // Errors: ResourceExhausted when memory does not suffice, naming the arena and its size;
  // InvalidArgument when a link is missing, of the other kind or of another size than its group, or
  // when borrowed memory is too small; the device's.
  virtual absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorRequest request) = 0;
};

}  // namespace stretto
