// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/held_out_data.h"

#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto::trainer {
namespace {

// The number of tokens that are read, as in TrainingData::Open.
constexpr int64_t kCheckedTokens = int64_t{16} << 20;

// Checks the samples of an evaluation: none is taken twice, each can be read, and there is
// something to measure.
absl::Status CheckSamples(const JobConfig& config, const Sampler& sampler) {
  const int64_t batches = config.evaluation.batches, size = config.engine.micro_batch_size;
  const int64_t length = config.engine.model.sequence_length;
  std::vector<int32_t> tokens(length), targets(tokens.size());
  struct Taken {
    int64_t samples = 0, end = 0;
  };
  std::map<const TokenStream*, Taken> taken;
  for (int64_t sample = 0; sample < batches * size; ++sample) {
    const auto [stream, begin] = sampler.Locate(sample);
    Taken& of = taken[stream];
    // A stream that is exhausted starts over, which shows as a sample at an earlier place.
    if (begin < of.end) {
      return absl::InvalidArgumentError(absl::StrCat(
          "eval.batches: found ", batches, " batches of ", size, " sequences, expected at most ",
          sample / size, ": ", config.evaluation.prefix.empty() ? "the held-out part of " : "",
          stream->name(), " has ", of.samples, " sequences of ", length, " tokens"));
    }
    of = {of.samples + 1, begin + length};
    if (sample * length < kCheckedTokens) {
      RETURN_IF_ERROR(sampler.ReadBatch(sample, 1, tokens.data(), targets.data()));
    }
  }
  ASSIGN_OR_RETURN(const int64_t measured, sampler.CountTargets(0, batches * size));
  if (measured > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "eval.batches: found no token in ", batches, " batches of ", size,
      " sequences that is trained on, expected at least one: the data masks all of them"));
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
    own.document_mask = false;  // one document may be measured on
    ASSIGN_OR_RETURN(TrainingData opened, TrainingData::Open(own));
    RETURN_IF_ERROR(CheckSameTokenizer(opened, training));
    data.own = std::make_unique<TrainingData>(std::move(opened));
    data.sampler = &data.own->train();
  }
  RETURN_IF_ERROR(CheckSamples(config, *data.sampler));
  return data;
}

}  // namespace stretto::trainer
