// SPDX-License-Identifier: Apache-2.0
#pragma once
// The orders in which the stages of a pipeline compute: the rows of pipelines.inc.

#include <array>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto {

struct PipelineRules {
  const char* name;
  const char* help;         // one line
  bool blocking = false;    // no stage computes while it sends or receives
  bool adjustable = false;  // takes warm_up
  bool delays = false;      // takes wgrad_delay
  bool chunked = false;     // takes several chunks_per_stage, and no fewer; delays to no bubble
  // Chunks go down the stages and back up, and a schedule weaves the two of a stage
  // (ScheduleRules::weaves). It takes two chunks_per_stage.
  bool folds = false;
};

inline constexpr auto kPipelines = std::to_array<PipelineRules>({
#define STRETTO_PIPELINE(order, ...) {__VA_ARGS__},
#define STRETTO_FOLDED_PIPELINE(...) {__VA_ARGS__},
#include "proto/spec/pipelines.inc"
#undef STRETTO_FOLDED_PIPELINE
#undef STRETTO_PIPELINE
});
// The most micro-batches that warm-ups by hand may have in flight beyond those of the next stage. A
// stage that warms up longer has no room for the gradients that come back meanwhile: the next stage
// waits for room, and the first for that stage, forever.
inline constexpr int kMostFurtherAhead = 7;
inline constexpr const char* kDefaultPipeline = kPipelines[0].name;

// Returns null if no order has this name.
constexpr const PipelineRules* FindPipeline(absl::string_view name) {
  for (const PipelineRules& rules : kPipelines) {
    if (name == rules.name) return &rules;
  }
  return nullptr;
}

std::vector<std::string> PipelineNames();

}  // namespace stretto
