#include "worker/engine/spec/spec.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

TEST(EvenSlicesTest, LargerSlicesComeFirst) {
  EXPECT_THAT(EvenSlices(4, 2), ElementsAre(2, 2));
  EXPECT_THAT(EvenSlices(7, 3), ElementsAre(3, 2, 2));
  EXPECT_THAT(EvenSlices(3, 1), ElementsAre(3));
  EXPECT_THAT(EvenSlices(2, 3), ElementsAre(1, 1, 0));  // for Validate to refuse
}

TEST(ModelSpecTest, HeadsThatShareKeysAreAsManyAsSaid) {
  ModelSpec model;
  model.heads = 8;
  EXPECT_EQ(model.key_heads(), 8);
  model.kv_heads = 2;
  EXPECT_EQ(model.key_heads(), 2);
}

TEST(PaddedVocabTest, IsTheNextMultipleOf128) {
  ModelSpec model;
  for (const auto& [size, padded] :
       std::vector<std::pair<int, int>>{{2, 128}, {128, 128}, {129, 256}, {50257, 50304}}) {
    model.vocab_size = size;
    EXPECT_EQ(model.padded_vocab(), padded);
  }
}

struct BadSpec {
  void (*change)(EngineSpec*);
  const char* message;
};

// Refused wherever the spec goes in, and with the same words.
void ExpectRefused(const std::vector<BadSpec>& cases) {
  for (const BadSpec& bad : cases) {
    EngineSpec spec = SpecOf({.slices = {2}});
    bad.change(&spec);
    const absl::Status status = Validate(spec);
    EXPECT_EQ(status, absl::InvalidArgumentError(bad.message));
    EXPECT_EQ(BuildPlans(spec).status(), status);
    EXPECT_EQ(Emit(spec, 0).status(), status);
  }
}

TEST(ValidateTest, SizesNameTheFieldFoundAndExpected) {
  ExpectRefused({
      {[](EngineSpec* s) { s->tp_size = 0; }, "tp_size: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->model.layers = 0; }, "model.layers: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->model.hidden = -8; }, "model.hidden: found -8, expected at least 1"},
      {[](EngineSpec* s) { s->model.heads = 0; }, "model.heads: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->model.ffn_hidden = 0; },
       "model.ffn_hidden: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->model.sequence_length = 0; },
       "model.sequence_length: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->model.vocab_size = 1; },
       "model.vocab_size: found 1, expected at least 2"},
      {[](EngineSpec* s) { s->micro_batch_size = 0; },
       "micro_batch_size: found 0, expected at least 1"},
      {[](EngineSpec* s) { s->micro_batches = 0; }, "micro_batches: found 0, expected at least 1"},
  });
}

TEST(ValidateTest, WhatRanksShareMustDivide) {
  ExpectRefused({
      {[](EngineSpec* s) { s->model.heads = 3; },
       "model.heads: found 3, expected a divisor of hidden 8"},
      {[](EngineSpec* s) { s->tp_size = 3; },
       "tp_size: found 3, expected a divisor of the 4 heads"},
      {[](EngineSpec* s) { s->model.ffn_hidden = 7; },
       "tp_size: found 2, expected a divisor of ffn_hidden 7"},
      {[](EngineSpec* s) {
         s->model.hidden = s->model.heads = s->model.ffn_hidden = s->tp_size = 768;
       },
       "tp_size: found 768, expected a divisor of the padded vocabulary 128"},
      {[](EngineSpec* s) { s->model.kv_heads = 3; },
       "model.kv_heads: found 3, expected a divisor of heads 4"},
      {[](EngineSpec* s) { s->model.kv_heads = 8; },
       "model.kv_heads: found 8, expected a divisor of heads 4"},
      {[](EngineSpec* s) { s->model.kv_heads = -1; },
       "model.kv_heads: found -1, expected a divisor of heads 4"},
      {[](EngineSpec* s) { s->model.kv_heads = 1; },
       "tp_size: found 2, expected a divisor of the 1 kv_heads"},
  });
}

TEST(ValidateTest, MergedMicroBatchesMustDivideThoseOfAStep) {
  ExpectRefused({
      {[](EngineSpec* s) { s->schedule.merge_wgrads = -1; },
       "schedule.merge_wgrads: found -1, expected 0 or a divisor of the 1 micro_batches"},
      {[](EngineSpec* s) {
         s->micro_batches = 6;
         s->schedule.merge_wgrads = 4;
       },
       "schedule.merge_wgrads: found 4, expected 0 or a divisor of the 6 micro_batches"},
      {[](EngineSpec* s) {
         s->micro_batches = 2;
         s->schedule.merge_wgrads = 4;
       },
       "schedule.merge_wgrads: found 4, expected 0 or a divisor of the 2 micro_batches"},
  });
}

TEST(ValidateTest, RotaryHeadsAreEvenAndTheirBaseAtLeastOne) {
  ExpectRefused({
      {[](EngineSpec* s) {
         s->model.architecture = ArchitectureOf(Family::kLlama);
         s->model.hidden = 12;
       },
       "model.heads: found 4, expected heads of an even dimension, for rotary embedding"},
      {[](EngineSpec* s) {
         s->model.architecture = ArchitectureOf(Family::kLlama);
         s->model.rotary_base = 0;
       },
       "model.rotary_base: found 0, expected at least 1"},
  });
  EngineSpec gpt = SpecOf({});
  gpt.model.hidden = 12;
  EXPECT_TRUE(Validate(gpt).ok());
}

// A valid Llama with stretched positions.
RotaryScaling* AsLlama3(EngineSpec* s) {
  s->model.architecture = ArchitectureOf(Family::kLlama);
  s->model.rotary_scaling = {
      .kind = RotaryScaling::Kind::kLlama3, .factor = 8, .original_sequence_length = 8};
  return &s->model.rotary_scaling;
}

TEST(ValidateTest, RotaryScalingStretchesAndItsRangesAreInOrder) {
  EngineSpec valid = SpecOf({});
  AsLlama3(&valid);
  EXPECT_TRUE(Validate(valid).ok()) << Validate(valid);
  ExpectRefused({
      {[](EngineSpec* s) { s->model.rotary_scaling.kind = RotaryScaling::Kind::kLinear; },
       "model.rotary_scaling: found linear, expected none, for learned positions"},
      {[](EngineSpec* s) { AsLlama3(s)->factor = 0.5; },
       "model.rotary_scaling.factor: found 0.5, expected at least 1"},
      {[](EngineSpec* s) {
         *AsLlama3(s) = {.kind = RotaryScaling::Kind::kLinear,
                         .factor = std::numeric_limits<double>::infinity()};
       },
       "model.rotary_scaling.factor: found inf, expected at least 1"},
      {[](EngineSpec* s) { AsLlama3(s)->low_frequency_factor = 0; },
       "model.rotary_scaling.low_frequency_factor: found 0, expected at least 1e-6"},
      {[](EngineSpec* s) { AsLlama3(s)->low_frequency_factor = 1e-7; },
       "model.rotary_scaling.low_frequency_factor: found 1e-07, expected at least 1e-6"},
      {[](EngineSpec* s) { AsLlama3(s)->high_frequency_factor = 1; },
       "model.rotary_scaling.high_frequency_factor: found 1, expected above low_frequency_factor "
       "1"},
      {[](EngineSpec* s) { AsLlama3(s)->original_sequence_length = 0; },
       "model.rotary_scaling.original_sequence_length: found 0, expected at least 1"},
  });
}

TEST(ValidateTest, NormEpsilonIsAFloatAboveZeroAndAtMostOne) {
  ExpectRefused({
      {[](EngineSpec* s) { s->model.norm_epsilon = 0; },
       "model.norm_epsilon: found 0, expected at least 1.2e-38, as f32 has it, and at most 1"},
      {[](EngineSpec* s) { s->model.norm_epsilon = 1e-40; },
       "model.norm_epsilon: found 1e-40, expected at least 1.2e-38, as f32 has it, and at most 1"},
      {[](EngineSpec* s) { s->model.norm_epsilon = 1.5; },
       "model.norm_epsilon: found 1.5, expected at least 1.2e-38, as f32 has it, and at most 1"},
      {[](EngineSpec* s) { s->model.norm_epsilon = std::numeric_limits<double>::quiet_NaN(); },
       "model.norm_epsilon: found nan, expected at least 1.2e-38, as f32 has it, and at most 1"},
  });
}

TEST(ValidateTest, DropoutIsAProbabilityBelowOne) {
  ExpectRefused({
      {[](EngineSpec* s) { s->model.dropout = 1; },
       "model.dropout: found 1, expected at least 0 and below 1"},
      {[](EngineSpec* s) { s->model.dropout = -0.125; },
       "model.dropout: found -0.125, expected at least 0 and below 1"},
      {[](EngineSpec* s) { s->model.dropout = std::numeric_limits<double>::quiet_NaN(); },
       "model.dropout: found nan, expected at least 0 and below 1"},
  });
}

TEST(ValidateTest, SlicesAreWholeSequencesOfTheMicroBatch) {
  ExpectRefused({
      // More slices than sequences.
      {[](EngineSpec* s) { s->schedule.slices = EvenSlices(2, 3); },
       "schedule.slice_sizes: found 0, expected at least 1 sequence in a slice"},
      {[](EngineSpec* s) {
         s->schedule.slices = {3, -1};
       },
       "schedule.slice_sizes: found -1, expected at least 1 sequence in a slice"},
      {[](EngineSpec* s) {
         s->schedule.slices = {2, 1};
       },
       "schedule.slice_sizes: found 3, expected slices that sum to micro_batch_size 2, not 2+1"},
      {[](EngineSpec* s) { s->schedule.slices = {}; },
       "schedule.slice_sizes: found 0, expected slices that sum to micro_batch_size 2, not "},
  });
}

TEST(ValidateTest, ScheduleParametersFitTheModel) {
  ExpectRefused({
      {[](EngineSpec* s) { s->schedule.splits = 3; },
       "schedule.splits: found 3, expected a divisor of hidden 8"},
      {[](EngineSpec* s) { s->schedule.splits = 0; },
       "schedule.splits: found 0, expected a divisor of hidden 8"},
      {[](EngineSpec* s) { s->schedule.defer_wgrads = -1; },
       "schedule.defer_wgrads: found -1, expected at least 0"},
      {[](EngineSpec* s) {
         s->schedule.sequence_parallel = true;
         s->model.sequence_length = 5;
       },
       "model.sequence_length: found 5, expected a multiple of tp_size 2 with sequence_parallel"},
  });
}

TEST(ValidateTest, GoodSpecsPass) {
  for (const Layout& layout : ManyLayouts())
    EXPECT_TRUE(Validate(SpecOf(layout)).ok()) << Describe(layout);
  for (const Layout& layout : EverySchedule())
    EXPECT_TRUE(Validate(SpecOf(layout)).ok()) << Describe(layout);
}

}  // namespace
}  // namespace stretto
