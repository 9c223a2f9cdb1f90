// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/initial_weights.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <functional>

#include "tests/worker/trainer/fake_source.h"
#include "tests/worker/trainer/tiny_job.h"
#include "worker/comm/local/local.h"
#include "worker/trainer/exit_reason.h"

namespace stretto::trainer {
namespace {

using testing::HasSubstr;

constexpr ModelSpec kGpt = {.layers = 2,
                            .hidden = 16,
                            .heads = 2,
                            .ffn_hidden = 32,
                            .sequence_length = 8,
                            .vocab_size = 100};

ModelSpec Llama() {
  ModelSpec model = kGpt;
  model.architecture = ArchitectureOf(Family::kLlama);
  return model;
}

TEST(CheckSameModelTest, TakesTheSameModel) {
  for (const ModelSpec& model : {kGpt, Llama()}) {
    const FakeSource source("hf:/data/gpt", model);
    EXPECT_TRUE(CheckSameModel(source, model).ok());
    ModelSpec other = model;
    other.dropout = 0.5;
    other.sequence_length = 7;
    other.kv_heads = 2;                      // as many as heads
    other.tied_head = model.head_is_tied();  // as the family's default
    EXPECT_TRUE(CheckSameModel(source, other).ok());
  }
}

TEST(CheckSameModelTest, AnEpsilonIsAnF32) {
  ModelSpec model = kGpt;
  model.norm_epsilon = 9.999999747378752e-06;
  EXPECT_TRUE(CheckSameModel(FakeSource("hf:/data/gpt", model), kGpt).ok());
  model.norm_epsilon = 1.000001e-5;
  EXPECT_THAT(std::string(CheckSameModel(FakeSource("hf:/data/gpt", model), kGpt).message()),
              HasSubstr("model.norm_epsilon: found 1.000001e-05, expected 1e-05"));
}

struct Difference {
  const char* name;
  bool llama;
  std::function<void(ModelSpec&)> job;
  const char* message;
};

class DifferentModelTest : public testing::TestWithParam<Difference> {};

TEST_P(DifferentModelTest, IsRefusedNamingTheField) {
  const ModelSpec model = GetParam().llama ? Llama() : kGpt;
  ModelSpec job = model;
  GetParam().job(job);
  const std::string message = GetParam().message;
  EXPECT_EQ(CheckSameModel(FakeSource("hf:/data/gpt", model), job),
            absl::InvalidArgumentError("/data/gpt/config.json: " + message + ", as the job says"));
  EXPECT_EQ(CheckSameModel(FakeSource("llmc:/data/gpt.bin", model), job),
            absl::InvalidArgumentError("/data/gpt.bin: " + message + ", as the job says"));
}

const Difference kDifferences[] = {
    {"Family", false,
     [](ModelSpec& m) { m.architecture = ArchitectureOf(Family::kLlama), m.tied_head = true; },
     "model.family: found gpt, expected llama"},
    {"Layers", false, [](ModelSpec& m) { m.layers = 3; }, "model.layers: found 2, expected 3"},
    {"Hidden", false, [](ModelSpec& m) { m.hidden = 32; }, "model.hidden: found 16, expected 32"},
    {"Heads", false, [](ModelSpec& m) { m.heads = 4, m.kv_heads = 2; },
     "model.heads: found 2, expected 4"},
    {"KeyHeads", true, [](ModelSpec& m) { m.kv_heads = 1; }, "model.kv_heads: found 2, expected 1"},
    {"Ffn", false, [](ModelSpec& m) { m.ffn_hidden = 64; },
     "model.ffn_hidden: found 32, expected 64"},
    {"Vocabulary", false, [](ModelSpec& m) { m.vocab_size = 99; },
     "model.vocab_size: found 100, expected 99"},
    {"Longer", false, [](ModelSpec& m) { m.sequence_length = 9; },
     "model.sequence_length: found at most 8, expected 9"},
    {"LongerLlama", true, [](ModelSpec& m) { m.sequence_length = 9; },
     "model.sequence_length: found at most 8, expected 9"},
    {"Epsilon", false, [](ModelSpec& m) { m.norm_epsilon = 1e-6; },
     "model.norm_epsilon: found 1e-05, expected 1e-06"},
    {"Head", true, [](ModelSpec& m) { m.tied_head = true; },
     "model.tied_head: found false, expected true"},
    {"RotaryBase", true, [](ModelSpec& m) { m.rotary_base = 500000; },
     "model.rotary_base: found 10000, expected 500000"},
    {"Rotary", true,
     [](ModelSpec& m) {
       m.rotary_scaling = {
           .kind = RotaryScaling::Kind::kLlama3, .factor = 8, .original_sequence_length = 64};
     },
     "model.rotary_scaling: found none, expected {llama3, factor 8, low_frequency_factor 1, "
     "high_frequency_factor 4, original_sequence_length 64}"},
    {"RotaryBeyondSixDigits", true,
     [](ModelSpec& m) {
       m.rotary_scaling = {.kind = RotaryScaling::Kind::kLinear, .factor = 2.0000001};
     },
     "model.rotary_scaling: found none, expected {linear, factor 2.0000001}"},
    {"Two", false, [](ModelSpec& m) { m.layers = 3, m.vocab_size = 1; },
     "model.layers: found 2, expected 3; model.vocab_size: found 100, expected 1"},
};
INSTANTIATE_TEST_SUITE_P(All, DifferentModelTest, testing::ValuesIn(kDifferences),
                         [](const auto& info) { return info.param.name; });

class ReadWeightsTest : public TinyJobTest {
 protected:
  // Masters are the source's elements, moments zero.
  void ExpectState(RankEngine& engine) {
    for (const ShardTensor& tensor : engine.StateTensors()) {
      const auto data = tensor.data.fetch();
      ASSERT_TRUE(data.ok()) << data.status();
      const float* values = static_cast<const float*>(*data);
      int64_t count = 1;
      for (int64_t extent : tensor.extents) count *= extent;
      std::vector<float> expected(static_cast<size_t>(count), 0.0f);
      if (!tensor.name.ends_with(".m") && !tensor.name.ends_with(".v")) {
        ASSERT_TRUE(source_.Read(tensor.name, tensor.starts, tensor.extents, expected.data()).ok());
      }
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), values)) << tensor.name;
    }
  }

  FakeSource source_{"hf:/data/gpt",
                     {.layers = 1,
                      .hidden = 16,
                      .heads = 2,
                      .ffn_hidden = 32,
                      .sequence_length = 12,  // longer than the job's: its positions are cut
                      .vocab_size = 100}};
};

TEST_F(ReadWeightsTest, EveryRankReadsItsShards) {
  ASSERT_TRUE(CheckSameModel(source_, config_.engine.model).ok());
  for (int tp_size : {1, 2}) {
    config_.engine.tp_size = tp_size;
    const auto group = LocalGroup::Create(tp_size);
    for (Rank rank : IdRange<Rank>(tp_size)) {
      const auto engine =
          RankEngine::Create(config_.engine, rank, Variant::kSchedule,
                             {{.host = group[rank.position()].get()}}, *backend_, {});
      ASSERT_TRUE(engine.ok()) << engine.status();
      // What they must not keep.
      ASSERT_TRUE((*engine)
                      ->SetState([&](const Parameter& box, Slot, float* values) {
                        std::fill_n(values, box.count(), 7.0f);
                        return absl::OkStatus();
                      })
                      .ok());
      ASSERT_TRUE(ReadWeights(source_, **engine).ok());
      ExpectState(**engine);
    }
  }
}

TEST_F(ReadWeightsTest, WhatCannotBeReadHasAReasonOfItsOwn) {
  source_.damaged = "layers.0.mlp.fc2.weight";
  const auto engine = MakeEngine();
  const absl::Status status = ReadWeights(source_, *engine);
  EXPECT_EQ(status.message(), "fake.safetensors: found the end");
  EXPECT_EQ(ReasonOfPrepare(status), ExitReason::kWeightsInvalid);
}

TEST(OpenInitialWeightsTest, WhatCannotBeOpenedHasAReasonOfItsOwn) {
  const TestFolder folder;
  JobConfig config;
  config.initial_weights = "hf:" + (folder / "nothing");
  const absl::Status status = OpenInitialWeights(config).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder / "nothing"));
  EXPECT_EQ(ReasonOfPrepare(status), ExitReason::kWeightsInvalid);
}

}  // namespace
}  // namespace stretto::trainer
