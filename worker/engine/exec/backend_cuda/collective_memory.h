// SPDX-License-Identifier: Apache-2.0
#pragma once
// Device memory for the operands of collectives.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/comm/device_communicator.h"
#include "worker/engine/program/program.h"

namespace stretto::cuda {

// Receives messages for the log about features that work, but slower than they could.
using Report = std::function<void(const std::string&)>;

// Owns the memory, which is of the kind that its users prefer and registered with all of them until
// it is destroyed. Graphs and enqueued work with collectives on it must end before.
class CollectiveMemory {
 public:
  // `users` are the communicators, borrowed, whose collectives may use the memory; they must
  // outlive it. Every rank makes its memories in the same order and sizes, with the same users.
  // Fails when a communicator is dead; memory that NCCL refuses to register is only reported.
  // Errors: ResourceExhausted, those of the device, those of a group.
  static absl::StatusOr<CollectiveMemory> Make(size_t bytes,
                                               const std::vector<DeviceCommunicator*>& users,
                                               const Report& report);

  CollectiveMemory() = default;
  CollectiveMemory(CollectiveMemory&&) = default;
  CollectiveMemory& operator=(CollectiveMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(users_, other.users_);
    return *this;
  }
  ~CollectiveMemory() {
    for (DeviceCommunicator* user : users_) user->Unregister(memory_.get());
  }

  void* get() const { return memory_.get(); }

 private:
  std::shared_ptr<void> memory_;  // shared with dead groups: see DeviceCommunicator::Unregister
  std::vector<DeviceCommunicator*> users_;
};

}  // namespace stretto::cuda
