// SPDX-License-Identifier: Apache-2.0
#pragma once
// Device memory that collectives may work on.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/comm/device_communicator.h"

namespace stretto::cuda {

// For the log: what works, but not as well as it could.
using Report = std::function<void(const std::string&)>;

// Owns the memory. It is of the kind that its users prefer and registered with all of them, until
// it ends; graphs and work with collectives on it end before.
class CollectiveMemory {
 public:
  // `users`: the communicators, borrowed, whose collectives may work on it; they outlive it. Every
  // rank makes its memories in the same order and sizes, with the same users. With a dead one it
  // fails; that NCCL refuses memory is only reported. Errors: ResourceExhausted, the device's,
  // those of a group.
  static absl::StatusOr<CollectiveMemory> Make(size_t bytes, std::vector<DeviceCommunicator*> users,
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
