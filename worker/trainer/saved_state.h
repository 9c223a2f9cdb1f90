// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state that a run resumes from: a checkpoint, or a model in the format of Hugging Face with
// the state of its optimizer beside it.

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/checkpoint/manifest.h"
#include "worker/comm/communicator.h"
#include "worker/trainer/attachments.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/rank_engine.h"
#include "worker/trainer/train_loop.h"

namespace stretto::trainer {

// Thread-safe. Holds no tensors in memory.
class SavedState {
 public:
  virtual ~SavedState() = default;

  // Returns the folder, as errors name it.
  virtual const std::string& name() const = 0;
  virtual const TrainingState& state() const = 0;
  // Reads this rank's shard of a parameter's tensor. Errors: FailedPrecondition (missing, or of
  // another shape), DataLoss, Unavailable.
  virtual absl::Status Read(const Parameter& parameter, Slot slot, float* values) const = 0;
  // Returns what accompanies its weights. Errors: those of reading the model's note.
  virtual absl::StatusOr<Origin> origin() const = 0;
};

// Opens the state to continue from; null for a fresh start. A run continues its own newest
// checkpoint if an earlier attempt has written one, and otherwise what the config resumes from. All
// ranks call it together and get the same one. `alive`, if given, is called now and then while
// files are read. Errors: DataLoss, FailedPrecondition (there is none, it is of another model, or
// its weights are not the masters), naming file or field.
absl::StatusOr<std::unique_ptr<SavedState>> FindSavedState(const JobConfig& config,
                                                           Communicator& control,
                                                           const std::function<void()>& alive = {});

// Loads the state into the engine. Errors: DataLoss, FailedPrecondition (of another model, layout
// or tokenizer), naming file or field.
absl::StatusOr<TrainState> Resume(const JobConfig& config, const std::string& tokenizer_hash,
                                  const SavedState& saved, RankEngine& engine);

}  // namespace stretto::trainer
