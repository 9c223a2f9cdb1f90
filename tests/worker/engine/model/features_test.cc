// SPDX-License-Identifier: Apache-2.0

// A model's features do not depend on one another: what no family combines is emitted all the same.

#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/mixtures.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/model/parameters.h"

namespace stretto {
namespace {

TEST(FeaturesTest, EveryMixtureMakesProgramsThatVerifyOnAllRanks) {
  for (const Architecture& mixture : EveryMixture()) {
    for (bool sequence_parallel : {false, true}) {
      for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        Layout layout = Domino({1, 1}, 2);
        layout.sequence_parallel = sequence_parallel;
        layout.recompute = recompute;
        EngineSpec spec = SpecOf(layout);
        spec.model.architecture = mixture;
        EXPECT_TRUE(BuildPlans(spec).ok())
            << Describe(mixture) << " " << Describe(layout) << ": " << BuildPlans(spec).status();
      }
    }
  }
}

TEST(FeaturesTest, EveryMixtureHasTheParametersThatItsFeaturesAskFor) {
  for (const Architecture& mixture : EveryMixture()) {
    SCOPED_TRACE(Describe(mixture));
    ModelSpec model = SpecOf(Layout{}).model;
    model.architecture = mixture;
    std::set<std::string> names;
    for (const Parameter& parameter : ParametersOf(model, 2, 1)) names.insert(parameter.name);
    EXPECT_EQ(names.contains("embedding.position.weight"),
              mixture.positions == PositionKind::kLearned);
    for (const char* norm : {"layers.0.ln1.bias", "layers.1.ln2.bias", "final_norm.bias"}) {
      EXPECT_EQ(names.contains(norm), mixture.norm == NormKind::kLayerNorm) << norm;
    }
    EXPECT_EQ(names.contains("layers.1.attention.qkv.bias"), mixture.qkv_bias);
    EXPECT_EQ(names.contains("layers.1.attention.proj.bias"), mixture.proj_bias);
    EXPECT_EQ(names.contains("layers.1.mlp.fc1.bias"), mixture.mlp_bias);
    EXPECT_EQ(names.contains("layers.1.mlp.fc2.bias"), mixture.mlp_bias);
  }
}

TEST(FeaturesTest, ABiasIsCutAsTheOutputsOfItsProduct) {
  ModelSpec model = SpecOf(Layout{.family = Family::kLlama}).model;
  model.architecture.qkv_bias = model.architecture.proj_bias = model.architecture.mlp_bias = true;
  const std::vector<Parameter> all = ParametersOf(model, 2, 1);
  const LayerParameters layer = IndexOf(all, model.layers).layers[0];
  const auto expect = [&](int index, std::vector<int64_t> starts, std::vector<int64_t> extents) {
    const Parameter& bias = all.at(static_cast<size_t>(index));
    EXPECT_EQ(bias.starts, starts) << bias.name;
    EXPECT_EQ(bias.extents, extents) << bias.name;
  };
  // Of 2 key/value heads one; of 16 gate and 16 up columns the second 8 each.
  expect(layer.qkv_b, {1, 0}, {1, 8});
  expect(layer.fc1_b, {0, 8}, {2, 8});
  expect(layer.proj_b, {0}, {8});
  expect(layer.fc2_b, {0}, {8});
}

}  // namespace
}  // namespace stretto
