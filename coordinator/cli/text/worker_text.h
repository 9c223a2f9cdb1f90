// SPDX-License-Identifier: Apache-2.0
#pragma once
// Workers as people read them. Pure; `now` is an argument.

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

std::string WorkerTable(const std::vector<v1alpha1::Worker>& workers, absl::Time now);
std::string DescribeWorker(const v1alpha1::Worker& worker, absl::Time now);

}  // namespace stretto::cli
