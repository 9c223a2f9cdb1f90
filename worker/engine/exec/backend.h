// SPDX-License-Identifier: Apache-2.0
#pragma once
// The seam between a rank and the machine that computes for it (DESIGN section 7). The CPU backend
// is linked in; the backend of a vendor is a plug-in.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/verify.h"

namespace stretto {

class CallWatch;
class Communicator;
class DeviceCommunicator;

// A rank's connection to its peers in a group: `host` for a backend that computes in host memory,
// otherwise `device`. Borrowed. Both are null for a group of one rank.
struct GroupLink {
  Communicator* host = nullptr;
  DeviceCommunicator* device = nullptr;
  // Borrowed; may be null. The executor of a device tells it the calls of `device`, whose end the
  // communicator does not see; `host` tells its own watch.
  CallWatch* watch = nullptr;
  // Whether all members have arenas of equal sizes with the group's tensors at equal offsets, so
  // that a device may register them.
  bool alike = true;
};

// By the index of the group in the program.
using GroupLinks = std::vector<GroupLink>;

struct ExecutorRequest {
  StepProgram step = {};
  Program program = {};  // its expansion, verified with planned memory
  ArenaBytes arenas = {};
  // By class: memory of another executor of this backend (Executor::Lend) to use instead of memory
  // of its own. The two executors must not run at once; each sees what the other left there.
  PerArena<Arena> borrowed = {};
  GroupLinks links = {};
  OnBegin on_begin = {};  // may be empty
};

// One device, or the cores of this process. Not thread-safe. A backend outlives its executors.
class Backend {
 public:
  virtual ~Backend() = default;

  // Describes for people what computes, and with which libraries.
  virtual std::string Describe() const = 0;

  // Returns how many bytes arenas may take at present. Errors: those of the system.
  virtual absl::StatusOr<int64_t> FreeMemory() const = 0;

  // Makes an executor of the request's program. Errors: ResourceExhausted when memory does not
  // suffice, naming the arena and its size; InvalidArgument when a link is missing, is of the wrong
  // kind or has another size than its group, or when borrowed memory is too small; those of the
  // device.
  virtual absl::StatusOr<std::unique_ptr<Executor>> MakeExecutor(ExecutorRequest request) = 0;
};

}  // namespace stretto
