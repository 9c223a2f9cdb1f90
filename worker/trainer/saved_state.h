// SPDX-License-Identifier: Apache-2.0
#pragma once
// The state that a run resumes from: a checkpoint, or a model in the format of Hugging Face with
// the state of its optimizer beside it.

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/spec/job/settings.h"
#include "worker/checkpoint/manifest.h"
#include "worker/comm/communicator.h"
#include "worker/trainer/attachments.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/rank_engine.h"
#include "worker/trainer/train_loop.h"

namespace stretto::trainer {

// Holds no tensors in memory. Not thread-safe.
class SavedState {
 public:
  virtual ~SavedState() = default;

  // Returns the folder, as errors name it.
  virtual const std::string& name() const = 0;
  virtual const TrainingState& state() const = 0;
  // Checks a parameter's tensor without reading it. Errors: FailedPrecondition (missing, or of
  // another shape).
  virtual absl::Status Check(const Parameter& parameter, Slot slot) const;
  // Reads this rank's shard of a parameter's tensor. Errors: FailedPrecondition (missing, or of
  // another shape), DataLoss, Unavailable.
  virtual absl::Status Read(const Parameter& parameter, Slot slot, float* values) = 0;
  // The order in which reading is cheapest.
  virtual std::string PlaceOf(const Parameter& parameter, Slot slot) const;
  // Verifies what was read and the rest of what this rank is to verify. Call it once, after the
  // last Read. Errors: DataLoss, those of reading.
  virtual absl::Status Finish();
  // Returns the settings of the run that wrote it; none if a release without them did. Errors:
  // those of ParseSettings, of reading.
  virtual absl::StatusOr<spec::Settings> settings() const;
  // Returns what accompanies its weights. Errors: those of reading the model's note.
  virtual absl::StatusOr<Origin> origin() const = 0;
};

// Saved states that turned out to be damaged when they were loaded, by name.
using DamagedStates = std::map<std::string, absl::Status>;

// Opens the state to continue from; null for a fresh start. A run continues its own newest
// checkpoint if an earlier attempt has written one, and otherwise what the config resumes from. All
// ranks call it together and get the same one. It is known to be whole, but its tensors are read
// and verified only when they are loaded; what turned out to be `damaged` is passed over. `alive`,
// if given, is called now and then while files are read, also later. Errors: DataLoss,
// FailedPrecondition (there is none, it is of another model, or its weights are not the masters),
// naming file or field.
absl::StatusOr<std::unique_ptr<SavedState>> FindSavedState(const JobConfig& config,
                                                           Communicator& control,
                                                           const std::function<void()>& alive = {},
                                                           const DamagedStates& damaged = {});

// Compares the settings that decide a run's numbers; a run that continues itself has the same ones.
// Errors: FailedPrecondition (names every setting that differs), those of SavedState::settings.
absl::Status CheckSettings(const JobConfig& config, const SavedState& saved);

// Compares the tokenizer of the data, whose hash is empty if it is not known, with that of the run
// that wrote the state, unless the job allows another one. Errors: FailedPrecondition (names both).
absl::Status CheckTokenizer(const JobConfig& config, const std::string& tokenizer_hash,
                            const SavedState& saved);

// Loads the state into the engine and verifies this rank's share of it, after settings and
// tokenizer were compared. Until every rank has verified its own, the state must not be used.
// Errors: DataLoss, FailedPrecondition (of another model, layout or tokenizer), naming file or
// field.
absl::StatusOr<TrainState> Resume(const JobConfig& config, const std::string& tokenizer_hash,
                                  SavedState& saved, RankEngine& engine);

// Returns true if all ranks have loaded the first state. `mine` is the result of this rank. If any
// rank found that `saved` is damaged, that is noted in `damaged` on all ranks, and the result is
// false. `saved` is null for a fresh start. All ranks call it together. Errors: `mine`, those of
// the group, Unavailable (a peer failed).
absl::StatusOr<bool> AllLoaded(const SavedState* saved, const absl::Status& mine,
                               Communicator& control, DamagedStates* damaged);

// Returns the attachments of a job's checkpoints: its settings, its project, and what AttachmentsOf
// a model returns for the origin of the `saved` state, else of the `weights`, either of which may
// be null.
absl::StatusOr<std::vector<Attachment>> AttachmentsOf(const JobConfig& config,
                                                      const std::string& tokenizer_prefix,
                                                      const ModelSource* weights,
                                                      const SavedState* saved);

}  // namespace stretto::trainer
