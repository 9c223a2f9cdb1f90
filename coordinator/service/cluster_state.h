// SPDX-License-Identifier: Apache-2.0
#pragma once
// What metrics show of the core's state.

#include "absl/time/time.h"
#include "coordinator/core/driver.h"
#include "coordinator/telemetry/telemetry.h"

namespace stretto::service {

// Jobs that ended within the last five minutes and workers that were lost within the last hour are
// named; what ended before is only counted. Thread-safe.
telemetry::ClusterState ReadClusterState(const coordinator::Driver& driver, absl::Time now);

}  // namespace stretto::service
