#include "worker/trainer/held_out_data.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto::trainer {
namespace {

absl::Status CheckEnough(const JobConfig& config, const Sampler& sampler) {
  const int64_t batches = config.evaluation.batches, size = config.engine.micro_batch_size;
  const int64_t sequences = sampler.samples_per_epoch();
  if (batches * size <= sequences) return absl::OkStatus();
  const std::string& prefix = config.evaluation.prefix;
  return absl::InvalidArgumentError(absl::StrCat(
      "eval.batches: found ", batches, " batches of ", size, " sequences, expected at most ",
      sequences / size, ": ", prefix.empty() ? "the held-out part of data" : prefix, " has ",
      sequences, " sequences of ", config.engine.model.sequence_length, " tokens"));
}

}  // namespace

absl::StatusOr<HeldOutData> OpenHeldOut(const JobConfig& config, const TrainingData& training) {
  HeldOutData data;
  if (config.evaluation.prefix.empty()) {
    if (training.held_out() == nullptr) {
      return absl::InvalidArgumentError(
          "eval.prefix: found none, expected one, because data.held_out is 0");
    }
    data.sampler = training.held_out();
  } else {
    DataConfig own = config.data;
    own.parts = {{config.evaluation.prefix}};
    own.held_out = 0;
    own.shuffle = false;
    ASSIGN_OR_RETURN(TrainingData opened, TrainingData::Open(own));
    RETURN_IF_ERROR(CheckSameTokenizer(training, opened));
    data.own = std::make_unique<TrainingData>(std::move(opened));
    data.sampler = &data.own->train();
  }
  RETURN_IF_ERROR(CheckEnough(config, *data.sampler));
  return data;
}

}  // namespace stretto::trainer
