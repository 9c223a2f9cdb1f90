// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state of training beside the tensors, which a run needs to continue.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json_fwd.hpp"

namespace stretto {

class StrictObject;

// The history of the loss on held-out data.
struct HeldOutState {
  // Identifies the measurement; losses of different ones are not compared. Empty if there is none
  // yet.
  std::string of = {};
  double best_loss = std::numeric_limits<double>::infinity();    // the lowest
  double better_loss = std::numeric_limits<double>::infinity();  // the last that was better
  int64_t without_better = 0;                                    // evaluations since then
  std::optional<double> loss = {};  // of this very step, if it was evaluated; a number

  bool operator==(const HeldOutState&) const = default;
};

// The checkpoint that an attempt resumed from.
struct ParentState {
  std::string job_uid;  // empty: of a release whose checkpoints have none
  int64_t epoch = 0;
  int64_t step = 0;

  bool operator==(const ParentState&) const = default;
};

struct TrainingState {
  int64_t step = 0;              // finished steps
  int64_t updates = 0;           // optimizer updates done: steps minus skipped ones
  int64_t consumed_samples = 0;  // position in the data
  uint64_t seed = 0;
  int64_t epoch = 0;  // fencing token of the attempt that wrote it
  std::string spec_hash;
  // As spec_hash, but of what is computed alone, not of the layout (proto/spec/job/hash.h). Empty
  // in states of releases that resumed under one layout only.
  std::string math_hash;
  std::string tokenizer_hash;
  int64_t padded_vocab = 0;
  int64_t world_size = 0;
  int64_t tp_size = 0;
  HeldOutState held_out = {};
  // The run that wrote it. Epochs and steps are compared within one run only, because another one
  // may have had its name. Empty in states of releases before this field.
  std::string job_uid = {};
  std::optional<ParentState> parent = {};  // of the attempt that wrote it

  bool operator==(const TrainingState&) const = default;
};

// As a text of its own, for states without a checkpoint. Errors of parsing: InvalidArgument.
std::string TrainingStateText(const TrainingState& state);
absl::StatusOr<TrainingState> ParseTrainingState(absl::string_view text, const std::string& path);

// As fields of a larger object. `where` names it in errors, which its Finish reports too.
void AddTrainingState(const TrainingState& state, nlohmann::ordered_json* document);
absl::StatusOr<TrainingState> TakeTrainingState(StrictObject& object, const std::string& where);

// The optimizer's state beside a model in another format: "NAME.m" and "NAME.v" of every parameter,
// whole and in F32, and their TrainingState in the file's metadata.
inline constexpr char kOptimizerFileName[] = "stretto-optimizer.safetensors";
inline constexpr char kTrainingStateKey[] = "stretto.training_state";

// The attachment of a checkpoint with the settings of its run, which such a file has in its
// metadata.
inline constexpr char kSettingsName[] = "settings.json";
inline constexpr char kSettingsKey[] = "stretto.settings";

}  // namespace stretto
