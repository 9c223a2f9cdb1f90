// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job submit --dry-run`: shows what a job would be without storing it.

#include <optional>
#include <string>
#include <vector>

#include "coordinator/cli/client/invocation.h"
#include "coordinator/cli/local/limited_child.h"
#include "stretto/v1alpha1/plan.pb.h"

namespace stretto::cli {

// Shows a job that CreateJob returned for validate_only: its spec with all defaults, its placement,
// and the memory of each rank as the program `planner` computes it. If that program or the workers
// do not answer, it reports so and shows the rest. kError if it is known not to fit.
ExitCode DryRun(const Invocation& invocation, const v1alpha1::Job& job, const std::string& planner);

// Returns the placement and memory of a dry run as text; `workers` are those of the placement.
// Pure.
std::string DryRunText(const v1alpha1::DryRun& run, const std::vector<v1alpha1::Worker>& workers);

// Returns whether the ranks fit the memory of their places: of their GPUs, or of their nodes for
// all cores together. Nullopt if part of it is not known. Pure.
std::optional<bool> Fits(const v1alpha1::DryRun& run, const std::vector<v1alpha1::Worker>& workers);

}  // namespace stretto::cli
