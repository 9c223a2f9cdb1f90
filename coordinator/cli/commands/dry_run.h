// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job submit --dry-run`: shows what a job would be without storing it.

#include <string>
#include <vector>

#include "coordinator/cli/client/invocation.h"
#include "stretto/v1alpha1/plan.pb.h"

namespace stretto::cli {

// Shows a job that CreateJob returned for validate_only: its spec with all defaults, its placement,
// and the memory of each rank as the program `planner` computes it. If memory could not be
// compared, it reports why and shows the rest. kError if it is known not to fit.
ExitCode DryRun(const Invocation& invocation, const v1alpha1::Job& job, const std::string& planner);

// Returns the placement and memory of a dry run as text; `workers` are those of the cluster.
// Pure.
std::string DryRunText(const v1alpha1::DryRun& run, const std::vector<v1alpha1::Worker>& workers);

}  // namespace stretto::cli
