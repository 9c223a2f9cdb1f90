// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/exported_state.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/box.h"
#include "proto/base/status_macros.h"
#include "worker/exchange/model_source.h"
#include "worker/trainer/initial_weights.h"
#include "worker/trainer/settings_file.h"

namespace stretto::trainer {
namespace {

class ExportedState final : public SavedState {
 public:
  ExportedState(std::string folder, std::unique_ptr<ModelSource> weights,
                SafetensorsReader optimizer, TrainingState state, spec::Settings settings)
      : folder_(std::move(folder)),
        weights_(std::move(weights)),
        optimizer_(std::move(optimizer)),
        state_(std::move(state)),
        settings_(std::move(settings)) {}

  const std::string& name() const override { return folder_; }
  const TrainingState& state() const override { return state_; }

  absl::Status Read(const Parameter& parameter, Slot slot, float* values) override {
    // The exported weights are in f32, so they are the masters.
    if (slot == Slot::kMaster) {
      return weights_->Read(parameter.name, parameter.starts, parameter.extents, values);
    }
    const std::string name = NameOfState(parameter, slot);
    const StoredTensor* stored = optimizer_.Find(name);
    if (stored == nullptr || stored->dtype != "F32" || stored->shape != parameter.shape) {
      const std::string found =
          stored == nullptr
              ? "none"
              : absl::StrCat(stored->dtype, " [", absl::StrJoin(stored->shape, ","), "]");
      return absl::FailedPreconditionError(
          absl::StrCat(folder_, "/", kOptimizerFileName, ": tensor ", name, ": found ", found,
                       ", expected F32 [", absl::StrJoin(parameter.shape, ","), "]"));
    }
    const Box whole{std::vector<int64_t>(parameter.shape.size()), parameter.shape};
    const Box shard{parameter.starts, parameter.extents};
    return ForEachRun(whole, shard, shard, [&](int64_t from, int64_t to, int64_t count) {
      return optimizer_.Read(*stored, from * 4, count * 4, values + to);
    });
  }

  absl::StatusOr<spec::Settings> settings() const override { return settings_; }
  absl::StatusOr<Origin> origin() const override { return OriginOf(*weights_); }

 private:
  const std::string folder_;
  const std::unique_ptr<ModelSource> weights_;
  const SafetensorsReader optimizer_;
  const TrainingState state_;
  const spec::Settings settings_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<SavedState>> OpenExportedState(const JobConfig& config) {
  const std::string& folder = config.resume_model;
  ASSIGN_OR_RETURN(std::unique_ptr<ModelSource> weights, OpenModel(absl::StrCat("hf:", folder)));
  RETURN_IF_ERROR(CheckSameModel(*weights, config.engine.model));
  if (weights->dtype() != "F32") {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": weights: found ", weights->dtype(),
                                                   ", expected F32: training goes on from those "
                                                   "alone, rounded to no other type"));
  }
  const std::string path = absl::StrCat(folder, "/", kOptimizerFileName);
  ASSIGN_OR_RETURN(SafetensorsReader optimizer, SafetensorsReader::Open(path));
  const auto& metadata = optimizer.header().metadata;
  const auto text = metadata.find(kTrainingStateKey);
  if (text == metadata.end()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": __metadata__ ", kTrainingStateKey,
                                                   ": found none, expected where training stood"));
  }
  ASSIGN_OR_RETURN(
      TrainingState state,
      ParseTrainingState(text->second, absl::StrCat(path, ": __metadata__ ", kTrainingStateKey)));
  spec::Settings settings;
  if (const auto kept = metadata.find(kSettingsKey); kept != metadata.end()) {
    ASSIGN_OR_RETURN(
        settings, ParseSettings(kept->second, absl::StrCat(path, ": __metadata__ ", kSettingsKey)));
  }
  return std::make_unique<ExportedState>(folder, std::move(weights), std::move(optimizer),
                                         std::move(state), std::move(settings));
}

}  // namespace stretto::trainer
