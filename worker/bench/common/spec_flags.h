// SPDX-License-Identifier: Apache-2.0
#pragma once
// The model and the schedule that a benchmark is told to run, as flags.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/spec/spec.h"

namespace CLI {
class App;
}

namespace stretto::bench {

// As they are given, each checked by itself. 0 and empty: not given, except where the default
// stands here; a command may set others before it adds the flags.
struct SpecFlags {
  std::string preset = "gpt-10m", family = {}, schedule = "megatron_sync", dtype = "f32";
  std::string wire = {};
  std::string recompute = "none";
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, sequence = 0, vocab = 0;
  int slices = 0, splits = 0, defer_wgrads = 0, merge_wgrads = 0;
  int tp = 2, micro_batch = 4, micro_batches = 1;
  bool sequence_parallel = false;
};

// Adds the flags to `app`; parsing fills `flags`, which must outlive it. Errors: CLI::ParseError,
// whose message says flag, found and expected.
void AddSpecFlags(CLI::App& app, SpecFlags& flags);

std::vector<std::string> PresetNames();
// Of the flags that are about the model.
ModelSpec ModelOf(const SpecFlags& flags);

// Defaults and rules of a job spec, so slices and splits that were not given are 2 where the
// schedule takes them. InvalidArgument, which NameFlags puts into the words of the flags.
absl::StatusOr<EngineSpec> SpecOf(const SpecFlags& flags);

// The preset's name, and whether a flag changed it.
std::string TitleOf(const SpecFlags& flags);

// The shapes of the model and of its micro-batches, for reports and for a peer that is to run them
// too.
nlohmann::ordered_json WorkOf(const EngineSpec& spec);

// An error about a spec, with flags in the place of its fields.
absl::Status NameFlags(const absl::Status& status);

}  // namespace stretto::bench
