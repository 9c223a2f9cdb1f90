// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records as JSON text, for all fields that have no column of their own. Times are nanoseconds
// since 1970. Unknown fields are ignored and missing ones take their default, so a field can be
// added without a migration. Bytes that are not UTF-8 are read back as U+FFFD.

#include <string>

#include "absl/status/status.h"
#include "coordinator/core/records.h"

namespace stretto::coordinator {

// Encodes all of a job except id, uid, number, spec, fingerprint and summary, which are columns.
std::string EncodeJobBody(const JobRecord& job);
// Fills `job`. Errors: DataLoss.
absl::Status DecodeJobBody(const std::string& body, JobRecord* job);

// Encodes all of a worker except its id.
std::string EncodeWorkerBody(const WorkerRecord& worker);
// Fills `worker`. Errors: DataLoss.
absl::Status DecodeWorkerBody(const std::string& body, WorkerRecord* worker);

}  // namespace stretto::coordinator
