// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of `stretto-bench overlap`: the work, the link and the schedules to compare.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/machine_flags.h"
#include "worker/comm/emulated_link_options.h"
#include "worker/engine/cost/profile.h"
#include "worker/engine/spec/spec.h"

namespace stretto::bench {

struct OverlapOptions {
  std::string help;  // if not empty, print it and do nothing else

  int rank = 0;
  int ranks = 2;                      // tp_size
  std::string rendezvous;             // shared by the ranks only
  std::string address = "127.0.0.1";  // of the network interface
  double gbps = 0;                    // rate that the link was shaped to; 0: not shaped

  // On a device, one rank runs alone over every combination of these emulated links.
  MachineFlags machine = {};
  std::vector<double> link_latency_us = {12}, link_gbytes = {270};
  std::vector<int> link_blocks = {2};

  // Empty: the model below, with 43 M parameters, which is large enough that a rank's matrix
  // products take seconds on one core.
  std::string preset;
  std::string family;  // empty: the preset's, or GPT
  ModelSpec model = {.layers = 6,
                     .hidden = 768,
                     .heads = 12,
                     .ffn_hidden = 3072,
                     .sequence_length = 256,
                     .vocab_size = 512};
  int batch = 8;  // sequences of a micro-batch
  int micro_batches = 1;
  // Numbers of micro-batches that each schedule may divide the sequences of a step into, and of
  // which it keeps its best; empty: `micro_batches`, of which the bounds are.
  std::vector<int> divisions;
  std::string dtype = "f32";
  std::string wire = "f32";

  std::vector<std::string> schedules;  // empty: all
  // The benchmark tries every combination that a schedule accepts; the best is compared.
  std::vector<int> slices = {1, 2, 3, 4};
  std::vector<int> splits = {1, 2};
  std::vector<int> defer_wgrads = {0};
  std::vector<int> sequence_parallel = {0};
  // Of schedules that weave; empty: the default one and, with costs, the one found for them.
  std::vector<std::string> plans;
  bool every_choice = false;  // all combinations are compared instead

  int repeats = 5;  // rounds
  // Per program and round. On a device the first steps choose algorithms and record graphs.
  int warm_up_steps = 0, steps = 1;
  std::string json;                  // file for a copy of the JSON, written by rank 0
  std::optional<CostProfile> costs;  // steps are predicted from them

  // The unsliced spec, which megatron_sync runs.
  EngineSpec Unsliced() const { return Divided(micro_batches); }
  // The same step, unsliced, divided into this number of micro-batches, one of `divisions`.
  EngineSpec Divided(int micro_batches) const;
  std::vector<int> Divisions() const {
    return divisions.empty() ? std::vector<int>{micro_batches} : divisions;
  }
  bool emulated() const { return machine.device != "cpu"; }
  std::vector<EmulatedLinkOptions> Links() const;
};

// Errors: InvalidArgument, in one line: the flag, found and expected.
absl::StatusOr<OverlapOptions> ParseOverlapOptions(std::vector<std::string> arguments);

}  // namespace stretto::bench
