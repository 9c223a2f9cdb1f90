// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records as the values of their columns, in the order of kTables (schema.h) and without the
// checksum. Every durable store keeps them in this form. Internal to store/.

#include <vector>

#include "absl/status/status.h"
#include "coordinator/core/records.h"
#include "coordinator/store/record_checksum.h"

namespace stretto::coordinator {

using Columns = std::vector<StoredValue>;

Columns ColumnsOf(const JobRecord& job);
Columns ColumnsOf(const WorkerRecord& worker);
Columns ColumnsOf(const EpochRecord& epoch);

// Fill a record. Errors: DataLoss (not the columns of such a record, or its body does not parse).
absl::Status FromColumns(const Columns& columns, JobRecord* job);
absl::Status FromColumns(const Columns& columns, WorkerRecord* worker);
absl::Status FromColumns(const Columns& columns, EpochRecord* epoch);

}  // namespace stretto::coordinator
