// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of `stretto-bench step`.

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/machine_flags.h"
#include "worker/comm/emulated_link_options.h"
#include "worker/engine/spec/spec.h"

namespace stretto::bench {

struct StepOptions {
  std::string help = {};  // if not empty, print it and do nothing else
  std::string model = {};
  EngineSpec spec = {};  // its micro-batches make up the tokens of a step
  int rank = 0;          // of spec.tp_size, over an emulated link
  MachineFlags machine = {};
  EmulatedLinkOptions link = {};
  std::optional<double> peak_flops = {};  // overrides the table of devices
  double warm_up_seconds = 10, seconds = 30;
  std::string json = {};

  int64_t tokens_per_step() const {
    return int64_t{spec.micro_batches} * spec.micro_batch_size * spec.model.sequence_length;
  }
};

// Errors: InvalidArgument, in one line: the flag, found and expected.
absl::StatusOr<StepOptions> ParseStepOptions(const std::vector<std::string>& arguments);

}  // namespace stretto::bench
