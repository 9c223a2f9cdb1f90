// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records as text: JSON, for everything that has no column of its own. Times are nanoseconds since
// 1970. Unknown fields are ignored, missing ones take their default, so that a field can be added
// without a migration. Text that is not UTF-8 comes back with U+FFFD in its place.

#include <string>

#include "absl/status/status.h"
#include "coordinator/core/records.h"

namespace stretto::coordinator {

// All of a job but id, uid, number, spec, fingerprint and summary, which are columns.
std::string EncodeJobBody(const JobRecord& job);
// Fills `job`. Errors: DataLoss.
absl::Status DecodeJobBody(const std::string& body, JobRecord* job);

// All of a worker but its id.
std::string EncodeWorkerBody(const WorkerRecord& worker);
// Errors: DataLoss.
absl::Status DecodeWorkerBody(const std::string& body, WorkerRecord* worker);

}  // namespace stretto::coordinator
