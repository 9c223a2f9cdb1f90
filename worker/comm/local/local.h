// SPDX-License-Identifier: Apache-2.0
#pragma once
// Communicators between threads of one process: the reference implementation, which tests and
// single-process runs use. A rank waits on a condition variable, never spins and allocates nothing
// per call. The ranks share the arithmetic: each reduces its part of the tensor over all ranks, in
// rank order.

#include <memory>
#include <vector>

#include "worker/comm/communicator.h"

namespace stretto {

class LocalGroup {
 public:
  // One Communicator per rank, in rank order, each for one thread. They share the group's state and
  // may be destroyed in any order. There is no timeout: a rank waits until its peers call, leave
  // (their Communicator is destroyed) or abort. If ranks run different collectives at the same
  // point of their order, all get InvalidArgument, which names both, and the group stays usable.
  static std::vector<std::unique_ptr<Communicator>> Create(int size);
};

}  // namespace stretto
