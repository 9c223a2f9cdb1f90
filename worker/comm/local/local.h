#pragma once
// Communicators between threads of one process: the reference implementation, and what tests and
// single-process runs use. Waits on a condition variable, never spins, allocates nothing per call.
// The ranks share the arithmetic: each reduces its part of the tensor over all ranks, in rank
// order.

#include <memory>
#include <vector>

#include "worker/comm/communicator.h"

namespace stretto {

class LocalGroup {
 public:
  // One Communicator per rank, in rank order, each for one thread. They share the group's state and
  // may be destroyed in any order. Has no timeout: a rank waits until its peers call, leave (their
  // Communicator is destroyed) or abort. Ranks that make different calls at the same place all get
  // InvalidArgument naming both calls, and the group still works.
  static std::vector<std::unique_ptr<Communicator>> Create(int size);
};

}  // namespace stretto
