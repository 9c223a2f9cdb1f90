// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/collective_memory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_cuda/handles.h"

namespace stretto::cuda {
namespace {

absl::StatusOr<std::shared_ptr<void>> Allocate(size_t bytes,
                                               const std::vector<DeviceCommunicator*>& users) {
  for (DeviceCommunicator* user : users) {
    ASSIGN_OR_RETURN(std::shared_ptr<void> memory, user->Allocate(static_cast<int64_t>(bytes)));
    if (memory != nullptr) return memory;
  }
  ASSIGN_OR_RETURN(DeviceMemory memory, MakeDeviceMemory(bytes));
  return std::shared_ptr<void>(std::move(memory));
}

}  // namespace

absl::StatusOr<CollectiveMemory> CollectiveMemory::Make(
    size_t bytes, const std::vector<DeviceCommunicator*>& users, const Report& report) {
  CollectiveMemory made;
  ASSIGN_OR_RETURN(made.memory_, Allocate(bytes, users));
  for (DeviceCommunicator* user : users) {
    made.users_.push_back(user);
    const absl::Status status = user->Register(made.memory_, static_cast<int64_t>(bytes));
    if (status.ok()) continue;
    // A failure to register costs only speed, unless Poll shows that the group is dead.
    RETURN_IF_ERROR(user->Poll());
    if (report) {
      report(absl::StrCat("collectives on memory that is not registered, which may be slower: ",
                          status.message()));
    }
  }
  return made;
}

}  // namespace stretto::cuda
