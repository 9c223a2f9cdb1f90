// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of the core's state that metrics show.

#include "absl/time/time.h"
#include "coordinator/core/driver.h"
#include "coordinator/telemetry/telemetry.h"

namespace stretto::service {

// Names the active jobs, those that ended within the last five minutes, and the workers except
// those lost more than an hour ago; the rest are only counted. Thread-safe.
telemetry::ClusterState ReadClusterState(const coordinator::Driver& driver, absl::Time now);

}  // namespace stretto::service
