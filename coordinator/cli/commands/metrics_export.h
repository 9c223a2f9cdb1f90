// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto job metrics --tensorboard` and `--wandb`: the vendors' libraries that write these files
// exist for Python alone, so the Python client does it (docs/PYTHON.md).

#include <string>
#include <vector>

namespace stretto::cli {

struct MetricsExport {
  std::string tensorboard;  // a folder; empty: not this one
  std::string wandb;

  bool wanted() const { return !tensorboard.empty() || !wandb.empty(); }
};

// Returns the program and its arguments that export the metrics of a job. `connection` has the
// flags that choose the cluster, as "--FLAG=VALUE". The program ends with the exit codes of
// `stretto`; where Python has no package stretto, it prints what to install, and fails.
std::vector<std::string> ExportCommand(const std::string& job, const MetricsExport& to,
                                       const std::vector<std::string>& connection);

}  // namespace stretto::cli
