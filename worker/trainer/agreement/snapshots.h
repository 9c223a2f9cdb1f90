// SPDX-License-Identifier: Apache-2.0
#pragma once
// The copies of state from which checkpoints are written while training continues.

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "worker/checkpoint/snapshot.h"
#include "worker/comm/communicator.h"

namespace stretto::trainer {

// Makes room for copies of `bytes` of this rank, on all ranks or on none: none where one does not
// want it, or cannot have it. All ranks call this together. Errors: where it is `required`,
// ResourceExhausted and, on the other ranks, Unavailable; those of the group.
absl::StatusOr<std::optional<Snapshot>> MakeSnapshot(bool wanted, bool required, int64_t bytes,
                                                     Communicator& control);

}  // namespace stretto::trainer
