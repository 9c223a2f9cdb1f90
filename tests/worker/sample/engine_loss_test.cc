// SPDX-License-Identifier: Apache-2.0

// The decoder's mathematics is that of training: the same weights and tokens have the same losses.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/parity/harness.h"
#include "tests/worker/made_model.h"
#include "worker/sample/decoder.h"

namespace stretto {
namespace {

constexpr int kSequences = 3;

EngineSpec SpecFor(const ModelSpec& model) {
  EngineSpec spec;
  spec.model = model;
  spec.model.sequence_length = 40;
  spec.micro_batch_size = kSequences;
  spec.schedule.slices = {kSequences};
  return spec;
}

std::vector<float> EngineLosses(const EngineSpec& spec) {
  parity::Job job(spec, {});
  const MadeSource source = DrawnModel(spec.model);
  for (size_t i = 0; i < source.parameters().size(); ++i) {
    job.rank(0).SetWeight(i, source.Values(source.parameters()[i]));
  }
  const absl::Status status = job.Run(1);
  EXPECT_TRUE(status.ok()) << status;
  return job.rank(0).results[0].token_losses;
}

double NegativeLogLikelihood(absl::Span<const float> logits, int32_t target) {
  double sum = 0;
  const double top = *std::max_element(logits.begin(), logits.end());
  for (const float logit : logits) sum += std::exp(logit - top);
  return top + std::log(sum) - logits[static_cast<size_t>(target)];
}

std::vector<double> DecoderLosses(const EngineSpec& spec) {
  const ModelSpec& model = spec.model;
  auto decoder = Decoder::Load(DrawnModel(model), {.threads = 2});
  EXPECT_TRUE(decoder.ok()) << decoder.status();
  const auto vocab = static_cast<size_t>(model.vocab_size);
  std::vector<double> losses;
  for (int sequence = 0; sequence < kSequences; ++sequence) {
    std::vector<int32_t> tokens;
    for (int i = 0; i <= model.sequence_length; ++i) {
      tokens.push_back(parity::TokenAt(model, 0, sequence, i));
    }
    const auto inputs = absl::MakeConstSpan(tokens).first(tokens.size() - 1);
    std::vector<float> logits(inputs.size() * vocab);
    (*decoder)->Clear();
    EXPECT_TRUE((*decoder)->Append(inputs, absl::MakeSpan(logits)).ok());
    for (size_t i = 0; i < inputs.size(); ++i) {
      losses.push_back(NegativeLogLikelihood(absl::MakeConstSpan(logits).subspan(i * vocab, vocab),
                                             tokens[i + 1]));
    }
  }
  return losses;
}

// Both compute in f32 and add in other orders. Logits reach 20 here, where f32 has steps of 2e-6;
// a loss is the difference of two of them.
constexpr double kLossBound = 2e-5;

void ExpectSameLosses(const ModelSpec& model) {
  const EngineSpec spec = SpecFor(model);
  const std::vector<float> engine = EngineLosses(spec);
  const std::vector<double> decoder = DecoderLosses(spec);
  ASSERT_EQ(engine.size(), decoder.size());
  double sum = 0, distance = 0;
  for (size_t i = 0; i < engine.size(); ++i) {
    EXPECT_NEAR(decoder[i], engine[i], kLossBound) << i;
    distance = std::max(distance, std::abs(decoder[i] - engine[i]));
    sum += decoder[i];
  }
  // Worse than nobody's guess, so that no two of them agree by chance.
  EXPECT_GT(sum / static_cast<double>(engine.size()), std::log(model.vocab_size));
  std::printf("largest difference of a token's loss: %.2g\n", distance);
}

TEST(EngineLossTest, Gpt) { ExpectSameLosses(TinyGpt()); }
TEST(EngineLossTest, Llama) { ExpectSameLosses(TinyLlama()); }
TEST(EngineLossTest, GptWithEveryOption) { ExpectSameLosses(OddGpt()); }
TEST(EngineLossTest, LlamaWithEveryOption) { ExpectSameLosses(OddLlama()); }

}  // namespace
}  // namespace stretto
