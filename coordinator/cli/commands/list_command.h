// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job list`.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cli/client/invocation.h"

namespace stretto::cli {

struct ListOptions {
  int limit = 50;       // 0 lists all
  std::string project;  // empty: all
  std::vector<std::string> states;
  std::vector<std::string> labels;  // KEY or KEY=VALUE
  bool retired = false;             // those instead of the others
  bool watch = false;
};

// Prints the jobs, and its exit code is returned. With `watch` it then prints each job whose state
// changes, or on a terminal shows the list as it is, until it is interrupted.
ExitCode ListJobs(const Invocation& invocation, const ListOptions& options);

// Returns the newest jobs that a request asks for, from all pages, at most `limit` if it is not 0.
absl::StatusOr<v1alpha1::ListJobsResponse> FetchJobs(Client& client,
                                                     v1alpha1::ListJobsRequest request, int limit);

}  // namespace stretto::cli
