// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of `stretto-bench sim`.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/cost/model.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

inline constexpr int kFewestColumns = 20;  // that DrawGrid takes

enum class GridWindow : uint8_t { kNone, kLayer, kStep };

struct SimOptions {
  std::string help = {};            // if not empty, print it and do nothing else
  bool reference = false;           // print the reference table and do nothing else
  std::vector<double> shares = {};  // of communication, for the columns of that table
  bool json = false;
  std::string model = {};  // the preset's name, and whether flags changed it
  EngineSpec spec = {};
  // More than one stage: for each number of stages, a spec of each order to compare, and one of a
  // schedule that does not weave, for the order that blocks.
  std::vector<std::vector<EngineSpec>> pipelines = {};
  EngineSpec plain = {};
  CostModel cost = {};  // its topology is CostOf's
  int ranks_per_node = 1;
  bool find_plan = false;   // of each cell, instead of that of the spec
  bool print_plan = false;  // and do nothing else
  GridWindow grid = GridWindow::kLayer;
  int layer = 0;
  int columns = 0;  // of the grid, without the names of lanes; 0: what fits the line
};

// Returns the costs of a job, whose adjacent ranks share nodes.
CostModel CostOf(const SimOptions& options, const EngineSpec& spec);

// Errors: InvalidArgument, in one line: the flag, found and expected.
absl::StatusOr<SimOptions> ParseSimOptions(std::vector<std::string> arguments);

}  // namespace stretto
