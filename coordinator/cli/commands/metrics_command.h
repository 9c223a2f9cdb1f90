// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job metrics`: exports every step that the coordinator keeps, for a spreadsheet or a
// script.

#include <string>
#include <vector>

#include "coordinator/cli/client/invocation.h"
#include "proto/document/document.h"
#include "stretto/v1alpha1/job.pb.h"

namespace stretto::cli {

struct MetricsOptions {
  std::string name;
  std::string steps;  // "A:B", "A:", ":B" or "A"; empty: all
  std::string file;   // empty or "-": standard output
};

// Writes a column for each figure of a step, including the ledger's seconds by part and an
// evaluation on held-out data. A figure that a step lacks is an empty cell. Columns and their order
// never change; new ones are appended.
std::string MetricsCsv(const std::vector<v1alpha1::StepReport>& steps);
// Writes a list of objects with the names of those columns. A figure that a step lacks, or that is
// not finite, is null.
Document MetricsDocument(const std::vector<v1alpha1::StepReport>& steps);

// Exports the steps finished at the time of the call, as CSV where the format is kTable. A file
// appears only when it is complete.
ExitCode JobMetrics(const Invocation& invocation, const MetricsOptions& options);

}  // namespace stretto::cli
