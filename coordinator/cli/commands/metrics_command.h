// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job metrics`: every step that the coordinator keeps, for a spreadsheet or a script.

#include <string>
#include <vector>

#include "coordinator/cli/client/invocation.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

struct MetricsOptions {
  std::string name;
  bool json = false;  // else CSV
  std::string steps;  // "A:B", "A:", ":B" or "A"; empty: all
  std::string file;   // empty or "-": standard output
};

// A column for each figure of a step: seconds of the ledger by part, and what was measured after it
// on held-out data. A step that lacks a figure leaves its cell empty. Columns and their order stay
// as they are; new ones come last.
std::string MetricsCsv(const std::vector<v1alpha1::StepReport>& steps);
// A list of objects with the names of those columns; null for what a step lacks, and for what is no
// number.
std::string MetricsJson(const std::vector<v1alpha1::StepReport>& steps);

// Of the steps finished when asked. A file appears when it is whole.
ExitCode JobMetrics(const Invocation& invocation, const MetricsOptions& options);

}  // namespace stretto::cli
