// SPDX-License-Identifier: Apache-2.0
#pragma once
// Flags for the model and the schedule of a benchmark.

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/spec/spec.h"

namespace CLI {
class App;
}

namespace stretto::bench {

// The values of the flags, each checked individually. 0 and empty mean not given, unless there is a
// default here; a command may change defaults before it adds the flags.
struct SpecFlags {
  std::string preset = "gpt-10m", family = {}, schedule = "megatron_sync", dtype = "f32";
  std::string wire = {};
  std::string recompute = "none";
  int layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, sequence = 0, vocab = 0;
  int slices = 0, splits = 0, defer_wgrads = 0, merge_wgrads = 0;
  int tp = 2, dp = 1, zero = 0, pp = 1, chunks = 1, micro_batch = 4, micro_batches = 1;
  std::string pipeline = {};  // the order; empty: the default one
  std::string plan = {};      // the text of a weave plan; empty: the default one
  bool sequence_parallel = false;
};

// Adds the flags to `app`; parsing fills `flags`, which must outlive it. Errors: CLI::ParseError,
// whose message has flag, found and expected.
void AddSpecFlags(CLI::App& app, SpecFlags& flags);

std::vector<std::string> PresetNames();
// Returns the model of the model flags.
ModelSpec ModelOf(const SpecFlags& flags);

// Applies the defaults and rules of a job spec, so slices and splits that were not given are 2 if
// the schedule needs them. Errors: InvalidArgument, with names of fields that NameFlags replaces by
// flags.
absl::StatusOr<EngineSpec> SpecOf(const SpecFlags& flags);

// Returns the name of the preset, and whether a flag changed it.
std::string TitleOf(const SpecFlags& flags);

// Returns the shapes of the model and of its micro-batches, for reports and for peers that run the
// same work.
nlohmann::ordered_json WorkOf(const EngineSpec& spec);

// Adds a flag for several of the known orders of a pipeline.
void AddOrdersFlag(CLI::App& app, const std::string& flag, const std::string& help,
                   const std::vector<std::string>& known, std::vector<std::string>& orders);
// Errors: InvalidArgument naming the flag, if an order is there twice.
absl::Status ExpectEachOnce(const std::string& flag, const std::vector<std::string>& orders);

// Whether the order, to which a delay of weight gradients may be added ("1f1b+send"), takes several
// chunks of a stage, as many as --chunks has. A folded order always has two.
bool TakesChunks(const std::string& order);
bool IsFolded(const std::string& order);
// The schedule of folded stages.
const char* WeavingSchedule();
// Errors: InvalidArgument, if the schedule of the other orders weaves, which they cannot.
absl::Status ExpectUnwoven(const SpecFlags& flags);
// Takes the default schedule instead of one that weaves.
void Unweave(SpecFlags* flags);
// Returns the flags of the rows that an order has: one for each of `chunks` if it takes several,
// else one. A folded order has the weaving schedule. An order that is not in the table has the
// flags as they are.
std::vector<SpecFlags> RowsOf(const SpecFlags& flags, const std::string& order,
                              const std::vector<int>& chunks);
// Errors: InvalidArgument, if the orders of `flag`, empty for all, need --chunks that were not
// given, or the reverse.
absl::Status ExpectChunks(const std::string& flag, const std::vector<std::string>& orders,
                          const std::vector<int>& chunks);

// Replaces the names of spec fields in an error by those of the flags.
absl::Status NameFlags(const absl::Status& status);

}  // namespace stretto::bench
