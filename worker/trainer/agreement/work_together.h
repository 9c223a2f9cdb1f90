// SPDX-License-Identifier: Apache-2.0
#pragma once
// Work that takes each rank a time of its own: reading or writing files, computing checksums.

#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "worker/comm/communicator.h"

namespace stretto::trainer {

// Runs `work` in a thread of its own and returns its status when it has ended on every rank. All
// ranks call this together. While they wait for each other they exchange signs of life every
// `interval`, so the peers' time limit bounds a sign of life and not the work. Errors of the group
// come before those of `work`, and are returned once `work` has ended here.
absl::Status WorkTogether(Communicator& group, const std::function<absl::Status()>& work,
                          absl::Duration interval = absl::Seconds(5));

}  // namespace stretto::trainer
