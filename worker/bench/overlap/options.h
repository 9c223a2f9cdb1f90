// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `stretto-bench overlap` measures: the work, the link and the schedules that compete.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/common/machine.h"
#include "worker/engine/spec/spec.h"

namespace stretto::bench {

struct OverlapOptions {
  std::string help;  // not empty: print it and do nothing

  int rank = 0;
  int ranks = 2;                      // tp_size
  std::string rendezvous;             // folder that all ranks see and nobody else writes to
  std::string address = "127.0.0.1";  // of the interface to talk over
  double gbps = 0;                    // what the link was shaped to; 0: not shaped

  // On a device one rank runs alone, over links that are emulated: every combination of these.
  MachineFlags machine = {};
  std::vector<double> link_latency_us = {12}, link_gbytes = {270};
  std::vector<int> link_blocks = {2};

  std::string preset;  // empty: this one, of 43 M parameters: large enough that a rank's matrix
                       // products take seconds on one core
  std::string family;  // empty: the preset's, or GPT
  ModelSpec model = {.layers = 6,
                     .hidden = 768,
                     .heads = 12,
                     .ffn_hidden = 3072,
                     .sequence_length = 256,
                     .vocab_size = 512};
  int batch = 8;  // sequences, in one micro-batch
  std::string dtype = "f32";
  std::string wire = "f32";

  std::vector<std::string> schedules;  // none: all
  // Every combination that a schedule accepts is searched; the best goes into the comparison.
  std::vector<int> slices = {1, 2, 3, 4};
  std::vector<int> splits = {1, 2};
  std::vector<int> defer_wgrads = {0};
  std::vector<int> sequence_parallel = {0};
  bool every_choice = false;  // the comparison has all of them instead

  int repeats = 5;  // rounds
  // Of a program in a round; a device chooses algorithms and records graphs in the first.
  int warm_up_steps = 0, steps = 1;
  std::string json;  // also written here, by rank 0

  // The spec that megatron_sync runs: unsliced.
  EngineSpec Unsliced() const;
  bool emulated() const { return machine.device != "cpu"; }
  std::vector<EmulatedLinkOptions> Links() const;
};

// InvalidArgument, in one line: the flag, found and expected.
absl::StatusOr<OverlapOptions> ParseOverlapOptions(std::vector<std::string> arguments);

}  // namespace stretto::bench
