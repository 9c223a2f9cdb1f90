// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank of a tiny training: its plan, its executor, and its buffers by meaning.

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "kernels/bf16.h"
#include "kernels/target.h"
#include "proto/base/random.h"
#include "tests/parity/tensors.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::parity {

struct Options {
  Variant variant = Variant::kSchedule;
  int steps = 1;
  uint64_t seed = 1;
  double learning_rate = 1e-3, weight_decay = 0.1, clip_norm = 1.0;
  absl::Duration max_delay = absl::ZeroDuration();  // of collectives, random
  int gradients_of_step = -1;                       // -1: the last
  bool same_batch = false;                          // every step sees the tokens of step 0
  bool same_masks = false;                          // every step drops what step 0 drops
  // Share of the targets that do not count; above 0 also all of the second sequence of a step.
  double masked = 0;
};

struct StepResult {
  double loss = 0;  // mean over token_losses, summed in f64
  // Micro-batch by micro-batch: those of a replica, in a Result those of all replicas in turn.
  Floats token_losses;
  float gradient_norm = 0;
  bool updated = false;
};

// Token `position` (0..sequence_length, one more than the input) of a sequence of a step.
inline int32_t TokenAt(const ModelSpec& model, int step, int sequence, int position) {
  const auto draw =
      Philox(99, static_cast<uint64_t>(sequence * 1000 + position), static_cast<uint64_t>(step));
  return static_cast<int32_t>(draw[0] % static_cast<uint32_t>(model.vocab_size));
}

// Where in its sequence the document of token `position` begins: every third token begins one.
inline int32_t DocumentAt(int step, int sequence, int position) {
  for (; position > 0; --position) {
    const auto draw =
        Philox(97, static_cast<uint64_t>(sequence * 1000 + position), static_cast<uint64_t>(step));
    if (draw[0] % 3 == 0) break;
  }
  return position;
}

// What token `position` is to predict; kNoTarget if that does not count.
inline int32_t TargetAt(const ModelSpec& model, const Options& options, int step, int sequence,
                        int position) {
  if (options.masked > 0) {
    const auto draw =
        Philox(98, static_cast<uint64_t>(sequence * 1000 + position), static_cast<uint64_t>(step));
    if (sequence == 1 || ToUniform(draw[0]) < options.masked) return kNoTarget;
  }
  return TokenAt(model, step, sequence, position + 1);
}

// One thread at a time.
class Rank {
 public:
  Rank(const EngineSpec& spec, const Options& options, RankPlan plan,
       std::unique_ptr<Executor> executor, stretto::Rank rank)
      : spec_(spec),
        options_(options),
        plan_(std::move(plan)),
        map_(plan_.step),
        place_(PlaceOf(spec, rank)),
        parameters_(ParametersOf(spec, rank)),
        executor_(std::move(executor)) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      Floats values(static_cast<size_t>(parameters_[i].count()));
      Initialise(parameters_[i], options.seed, values.data());
      SetWeight(i, values);
    }
  }

  // Inputs and outputs.
  TensorView View(BufferId id, int micro_batch = 0) {
    return executor_->HostView(map_.Find(id, micro_batch));
  }
  Floats Read(BufferId id, int micro_batch = 0) {
    const TensorView view = *executor_->Read(map_.Find(id, micro_batch));
    const float* data = view.as<float>();
    return Floats(data, data + view.count());
  }
  // Writes the elements of a shard that the rank updates, given all of the shard: the master and,
  // where it is another tensor, the weight of the compute type.
  void SetWeight(size_t parameter, const Floats& values) {
    const ElementRange updated = plan_.buffers.updated[parameter];
    if (updated.count() == 0) return;
    const auto begin = values.begin() + updated.begin, end = values.begin() + updated.end;
    Write(plan_.buffers.master[parameter],
          [&](TensorView master) { std::copy(begin, end, master.as<float>()); });
    if (spec_.dtype == DType::kF32) return;
    Write(plan_.buffers.weight_part[parameter],
          [&](TensorView weight) { std::transform(begin, end, weight.as<BF16>(), ToBF16); });
  }

  void WriteInputs(int step) {
    const ModelSpec& model = spec_.model;
    const int batch = options_.same_batch ? 0 : step;
    for (int mb = 0; mb < spec_.micro_batches; ++mb) {
      // Of the micro-batch, among those of all replicas of the stage.
      const int first = (mb * ReplicasOf(spec_, place_.stage) + place_.replica) *
                        SequencesOf(spec_, place_.stage);
      WriteTokens(plan_.buffers.tokens, mb, first,
                  [&](int sequence, int s) { return TokenAt(model, batch, sequence, s); });
      WriteTokens(plan_.buffers.targets, mb, first, [&](int sequence, int s) {
        return TargetAt(model, options_, batch, sequence, s);
      });
      WriteTokens(plan_.buffers.documents, mb, first,
                  [&](int sequence, int s) { return DocumentAt(batch, sequence, s); });
      int32_t* keys = View(plan_.buffers.keys, mb).as<int32_t>();
      keys[kSeedLow] = 17;
      keys[kSeedHigh] = 4;
      keys[kStepNumber] = options_.same_masks ? 0 : step;
      keys[kFirstToken] = first * model.sequence_length;
    }
    float* scalars = View(plan_.buffers.scalars).as<float>();
    scalars[kLearningRate] = static_cast<float>(options_.learning_rate);
    scalars[kBeta1] = 0.9f;
    scalars[kBeta2] = 0.95f;
    scalars[kEpsilon] = 1e-8f;
    scalars[kWeightDecay] = static_cast<float>(options_.weight_decay);
    scalars[kBiasCorrection1] = static_cast<float>(1 - std::pow(0.9, step + 1));
    scalars[kBiasCorrection2] = static_cast<float>(1 - std::pow(0.95, step + 1));
    scalars[kClipNorm] = static_cast<float>(options_.clip_norm);
    scalars[kLossWeight] = 1.0f / static_cast<float>(std::max(1, TargetsOf(batch)));
  }

  StepResult ReadOutputs() {
    StepResult result;
    for (int mb = 0; mb < spec_.micro_batches && plan_.buffers.losses >= 0; ++mb) {
      const TensorView losses = View(plan_.buffers.losses, mb);
      const float* first = losses.as<float>();
      result.token_losses.insert(result.token_losses.end(), first, first + losses.count());
    }
    for (double loss : result.token_losses) result.loss += loss;
    result.loss /= static_cast<double>(std::max<size_t>(1, result.token_losses.size()));
    const float* state = View(plan_.buffers.clip_state).as<float>();
    result.gradient_norm = state[kGradNorm];
    result.updated = state[kUpdate] == 1;
    return result;
  }

  // Runs `steps` steps from number `first`. On an error leaves the group, so that peers end too.
  absl::Status Run(int first, int steps) {
    for (int step = first; step < first + steps; ++step) {
      WriteInputs(step);
      if (absl::Status status = executor_->Run(); !status.ok()) {
        executor_->Cancel();
        return status;
      }
      results.push_back(ReadOutputs());
      const int wanted =
          options_.gradients_of_step < 0 ? first + steps - 1 : options_.gradients_of_step;
      if (step == wanted) gradients = ReadAll(plan_.buffers.gradient_part);
    }
    return absl::OkStatus();
  }

  // Empty tensors for buffers that the rank does not have.
  Tensors ReadAll(const std::vector<BufferId>& ids) {
    Tensors tensors;
    for (BufferId id : ids) tensors.push_back(id < 0 ? Floats() : Read(id));
    return tensors;
  }

  const RankPlan& plan() const { return plan_; }
  int replica() const { return place_.replica; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  Executor& executor() { return *executor_; }

  std::vector<StepResult> results;
  Tensors gradients;

 private:
  // Writes the tokens of the sequences from `first` on, where the rank has such a buffer.
  void WriteTokens(BufferId id, int micro_batch, int first,
                   const std::function<int32_t(int sequence, int position)>& at) {
    if (id < 0) return;
    int32_t* tokens = View(id, micro_batch).as<int32_t>();
    for (int b = 0; b < SequencesOf(spec_, place_.stage); ++b) {
      for (int s = 0; s < spec_.model.sequence_length; ++s) *tokens++ = at(first + b, s);
    }
  }

  // The number of targets of a step that count.
  int TargetsOf(int batch) const {
    int targets = 0;
    for (int sequence = 0; sequence < spec_.sequences_per_step(); ++sequence) {
      for (int s = 0; s < spec_.model.sequence_length; ++s)
        targets += TargetAt(spec_.model, options_, batch, sequence, s) != kNoTarget ? 1 : 0;
    }
    return targets;
  }

  void Write(BufferId id, const std::function<void(TensorView)>& fill) {
    const absl::Status status = executor_->Write(map_.Find(id, 0), [&](TensorView view) {
      fill(view);
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  }

  const EngineSpec spec_;
  const Options options_;
  const RankPlan plan_;
  const BufferMap map_;
  const Place place_;
  const std::vector<Parameter> parameters_;
  const std::unique_ptr<Executor> executor_;
};

}  // namespace stretto::parity
