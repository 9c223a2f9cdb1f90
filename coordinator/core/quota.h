// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a project may have at once. Without any quota, project names limit nobody.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stretto::coordinator {

struct Quota {
  int64_t devices = INT64_MAX;  // slots that its jobs hold; at least 1
  int64_t queued = INT64_MAX;   // jobs that wait; at least 1
  bool operator==(const Quota&) const = default;
};

using Quotas = std::map<std::string, Quota>;  // by project

// Reads "PROJECT:devices=N,queued=N" for each project; either limit may be left out. Errors:
// InvalidArgument (another form, a bad name or number, a project twice).
absl::StatusOr<Quotas> ParseQuotas(const std::vector<std::string>& texts);

// Returns Ok if the project's quota lets it create a job of this many ranks. `waiting`: its jobs
// that wait. Errors: ResourceExhausted (it has no quota though others do, the job could never run,
// or too many wait).
absl::Status CheckQuota(const Quotas& quotas, const std::string& project, int64_t ranks,
                        int64_t waiting);

// Returns the slots that a project may hold; unlimited without a quota.
int64_t DevicesOf(const Quotas& quotas, const std::string& project);

}  // namespace stretto::coordinator
