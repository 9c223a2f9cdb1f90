// SPDX-License-Identifier: Apache-2.0

// Each part is looked at for itself, so that one answer has everything that is wrong. A part that
// needs another one is left out where that is missing.

#include "worker/trainer/inspect/inspect.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/comm/local/local.h"
#include "worker/data/tokenizer_info.h"
#include "worker/data/training_data.h"
#include "worker/trainer/attachments.h"
#include "worker/trainer/held_out_data.h"
#include "worker/trainer/initial_weights.h"
#include "worker/trainer/same_tokenizer.h"
#include "worker/trainer/saved_state.h"
#include "worker/trainer/settings_file.h"

namespace stretto::trainer {
namespace {

class Inspector {
 public:
  explicit Inspector(JobConfig config) : config_(std::move(config)) {}

  v1alpha1::Inspection Look() {
    LookAtData();
    if (!config_.initial_weights.empty()) LookAtWeights();
    if (!config_.resume_folder.empty() || !config_.resume_model.empty()) LookAtState();
    return std::move(found_);
  }

 private:
  void LookAtData() {
    absl::StatusOr<TrainingData> data = TrainingData::Open(config_.data);
    if (!data.ok()) return Problem("data", data.status());
    data_.emplace(*std::move(data));
    Fact("data", absl::StrCat(TokensOf(data_->train()), " tokens to train on",
                              data_->held_out() == nullptr
                                  ? ""
                                  : absl::StrCat(", ", TokensOf(*data_->held_out()), " held out"),
                              TokenizerText()));
    Fact("epoch", absl::StrCat(StepsOfEpoch(), " steps"));
    found_.set_steps_of_epoch(StepsOfEpoch());
    if (!config_.evaluates()) return;
    const absl::StatusOr<HeldOutData> held_out = OpenHeldOut(config_, *data_);
    if (!held_out.ok()) Problem("eval", held_out.status());
  }

  void LookAtWeights() {
    const absl::StatusOr<std::unique_ptr<ModelSource>> weights = OpenInitialWeights(config_);
    if (!weights.ok()) return Problem("model.initial_weights", weights.status());
    Fact("initial weights", config_.initial_weights);
    if (!data_.has_value() || config_.allow_other_tokenizer) return;
    const absl::Status same =
        CheckTokenizerOfWeights(*data_, OriginOf(**weights, config_.data.root));
    if (!same.ok()) Problem("data", same);
  }

  void LookAtState() {
    constexpr char kField[] = "checkpoint.resume_from";
    const auto alone = LocalGroup::Create(1);
    const absl::StatusOr<std::unique_ptr<SavedState>> saved =
        FindSavedState(config_, *alone.front());
    if (!saved.ok()) return Problem(kField, saved.status());
    if (*saved == nullptr) return;
    Fact("resumes from", absl::StrCat((*saved)->name(), ", step ", (*saved)->state().step));
    for (const absl::Status& status : {CheckSettingsOf(**saved), CheckTokenizerOf(**saved)}) {
      if (!status.ok()) Problem(kField, status);
    }
  }

  absl::Status CheckSettingsOf(const SavedState& saved) {
    ASSIGN_OR_RETURN(const spec::Settings settings, saved.settings());
    RETURN_IF_ERROR(TakeDecaySteps(settings, &config_));
    return CheckSettings(config_, saved);
  }
  absl::Status CheckTokenizerOf(const SavedState& saved) const {
    return CheckTokenizer(config_, data_.has_value() ? data_->tokenizer_hash() : "", saved);
  }

  std::string TokensOf(const Sampler& sampler) const {
    return FormatCount(
        static_cast<double>(sampler.samples_per_epoch() * config_.data.sequence_length));
  }

  std::string TokenizerText() const {
    if (data_->tokenizer_prefix().empty()) return ", of a tokenizer that is not known";
    const absl::StatusOr<TokenizerInfo> info = ReadTokenizerInfo(data_->tokenizer_prefix());
    if (!info.ok()) return "";
    return absl::StrCat(", tokenizer ", info->kind, " of ", FormatCount(info->vocab_size),
                        " tokens");
  }

  int64_t StepsOfEpoch() const {
    const int64_t samples = config_.engine.sequences_per_step();
    return (data_->train().samples_per_epoch() + samples - 1) / samples;
  }

  void Problem(const char* field, const absl::Status& status) {
    v1alpha1::InspectionFinding* problem = found_.add_problems();
    problem->set_field(field);
    absl::string_view message = status.message();
    absl::ConsumePrefix(&message, absl::StrCat(field, ": "));
    problem->set_message(std::string(message));
  }
  void Fact(const char* what, const std::string& text) {
    found_.add_facts(absl::StrCat(what, ": ", text));
  }

  JobConfig config_;
  std::optional<TrainingData> data_;
  v1alpha1::Inspection found_;
};

}  // namespace

v1alpha1::Inspection InspectJob(const v1alpha1::AttachResponse& task) {
  absl::StatusOr<JobConfig> config = ConfigFrom(task, Rank::Of(0));
  if (config.ok()) return Inspector(*std::move(config)).Look();
  v1alpha1::Inspection refused;
  v1alpha1::InspectionFinding* problem = refused.add_problems();
  problem->set_field("spec");
  problem->set_message(std::string(config.status().message()));
  return refused;
}

absl::Status InspectJobOf(const std::string& task_file, const std::string& answer_file) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(task_file));
  v1alpha1::AttachResponse task;
  if (!task.ParseFromString(bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(task_file, ": found ", bytes.size(), " bytes, expected an AttachResponse"));
  }
  return WriteFileAtomic(answer_file, InspectJob(task).SerializeAsString());
}

}  // namespace stretto::trainer
