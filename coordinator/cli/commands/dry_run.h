// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job submit --dry-run`: what a job would be, without storing it.

#include <optional>
#include <string>
#include <vector>

#include "coordinator/cli/client/invocation.h"
#include "coordinator/cli/local/limited_child.h"
#include "stretto/v1alpha1/plan.pb.h"

namespace stretto::cli {

// Shows a job that CreateJob has answered to validate_only with: its spec with all defaults, where
// it would go, and what each rank would hold, as the program `planner` plans it. Where that program
// or the workers give no answer, says so and shows the rest.
ExitCode DryRun(const Invocation& invocation, const v1alpha1::Job& job, const std::string& planner);

// The placement and memory of a dry run as text; `workers` are those of the placement. Pure.
std::string DryRunText(const v1alpha1::DryRun& run, const std::vector<v1alpha1::Worker>& workers);

// Whether the ranks fit the memory of where they would go: their GPUs, or their nodes' cores
// together. Nullopt: some of it is not known. Pure.
std::optional<bool> Fits(const v1alpha1::DryRun& run, const std::vector<v1alpha1::Worker>& workers);

}  // namespace stretto::cli
