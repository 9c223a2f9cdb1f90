// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/common/inputs.h"

#include <algorithm>
#include <cmath>

#include "proto/base/random.h"

namespace stretto::bench {
namespace {

constexpr uint64_t kTokenSeed = 2;

}  // namespace

void FillInputs(const EngineSpec& spec, int step, trainer::RankEngine& engine) {
  const int64_t tokens = int64_t{spec.micro_batch_size} * spec.model.sequence_length;
  const auto token = [&](int64_t position) {
    return static_cast<int32_t>(
        Philox(kTokenSeed, static_cast<uint64_t>(position), static_cast<uint64_t>(step))[0] %
        static_cast<uint32_t>(spec.model.vocab_size));
  };
  for (int mb = 0; mb < spec.micro_batches; ++mb) {
    // Stages in the middle of a pipeline have neither.
    int32_t *inputs = engine.tokens(mb), *targets = engine.targets(mb);
    for (int64_t i = 0; i < tokens; ++i) {
      if (inputs != nullptr) inputs[i] = token(mb * tokens + i);
      if (targets != nullptr) targets[i] = token(mb * tokens + i + 1);
    }
    // Every sequence is one document.
    if (int32_t* documents = engine.documents(mb)) std::fill_n(documents, tokens, 0);
    int32_t* keys = engine.keys(mb);
    keys[kSeedLow] = static_cast<int32_t>(kSeed);
    keys[kSeedHigh] = 0;
    keys[kStepNumber] = step;
    keys[kFirstToken] = static_cast<int32_t>(mb * tokens);
  }
  constexpr double beta1 = 0.9, beta2 = 0.95;
  float* scalars = engine.scalars();
  scalars[kLearningRate] = 1e-4f;
  scalars[kBeta1] = beta1;
  scalars[kBeta2] = beta2;
  scalars[kEpsilon] = 1e-8f;
  scalars[kWeightDecay] = 0.1f;
  scalars[kBiasCorrection1] = static_cast<float>(1 - std::pow(beta1, step));
  scalars[kBiasCorrection2] = static_cast<float>(1 - std::pow(beta2, step));
  scalars[kClipNorm] = 1.0f;
  scalars[kLossWeight] = 1.0f / static_cast<float>(tokens * spec.micro_batches);
}

}  // namespace stretto::bench
