// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/model/parameters.h"

#include <cmath>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

const ModelSpec kModel = SpecOf({}).model;
const ModelSpec kLlama = SpecOf({.family = Family::kLlama}).model;

ModelParameters IndexOf(const ModelSpec& model) {
  return IndexOf(ParametersOf(model, 1, 0), model.layers);
}

std::vector<float> ShardOf(const Parameter& parameter, uint64_t seed = 7) {
  std::vector<float> values(static_cast<size_t>(parameter.count()), NAN);
  Initialise(parameter, seed, values.data());
  return values;
}

// Writes a shard into the full tensor.
void Place(const Parameter& p, const std::vector<float>& shard, std::vector<float>* full) {
  std::vector<int64_t> at(p.shape.size(), 0);
  for (float value : shard) {
    int64_t element = 0;
    for (size_t d = 0; d < at.size(); ++d) element = element * p.shape[d] + p.starts[d] + at[d];
    (*full)[element] = value;
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < p.extents[d]) break;
      at[d] = 0;
    }
  }
}

void ExpectShardsOfTheSameTensors(const ModelSpec& model, int tp_size) {
  const std::vector<Parameter> whole = ParametersOf(model, 1, 0);
  for (size_t i = 0; i < whole.size(); ++i) {
    const std::vector<float> full = ShardOf(whole[i]);
    std::vector<float> gathered(full.size(), NAN);
    for (GroupRank rank : IdRange<GroupRank>(tp_size)) {
      const Parameter shard = ParametersOf(model, tp_size, rank)[i];
      EXPECT_EQ(shard.name, whole[i].name);
      EXPECT_EQ(shard.shape, whole[i].shape);
      Place(shard, ShardOf(shard), &gathered);
    }
    EXPECT_EQ(std::memcmp(gathered.data(), full.data(), full.size() * sizeof(float)), 0)
        << whole[i].name;
  }
}

TEST(ParametersTest, EveryTpSizeCutsItsShardsFromTheSameTensor) {
  for (int tp_size : {2, 4}) ExpectShardsOfTheSameTensors(kModel, tp_size);
  ExpectShardsOfTheSameTensors(kLlama, 2);
}

TEST(ParametersTest, ShardsOfRanksDiffer) {
  for (const ModelSpec& model : {kModel, kLlama}) {
    const std::vector<Parameter> a = ParametersOf(model, 2, 0), b = ParametersOf(model, 2, 1);
    for (size_t i = 0; i < a.size(); ++i) {
      const bool differ = ShardOf(a[i]) != ShardOf(b[i]);
      EXPECT_EQ(differ, a[i].sharded() && a[i].init == Init::kNormal) << a[i].name;
    }
  }
}

TEST(ParametersTest, PaddingRowsAreZeroAndTheOthersAreNot) {
  const int head = IndexOf(kLlama).head;
  for (const auto& [model, index] :
       std::vector<std::pair<ModelSpec, int>>{{kModel, 0}, {kLlama, 0}, {kLlama, head}}) {
    const std::vector<float> values = ShardOf(ParametersOf(model, 1, 0)[index]);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i] == 0, i >= static_cast<size_t>(model.vocab_size * model.hidden)) << i;
    }
  }
}

TEST(ParametersTest, SeedsAndParametersDrawDifferentNumbers) {
  const std::vector<Parameter> all = ParametersOf(kModel, 1, 0);
  const ModelParameters index = IndexOf(kModel);
  const LayerParameters zero = index.layers[0], one = index.layers[1];
  const Parameter& fc1 = all[zero.fc1_w];
  EXPECT_NE(ShardOf(fc1, 1), ShardOf(fc1, 2));
  EXPECT_NE(ShardOf(fc1), ShardOf(all[one.fc1_w]));
}

TEST(ParametersTest, NormalInitialisationHasTheMeanAndDeviationOfGpt2) {
  ModelSpec model = kModel;
  model.hidden = 64;
  model.layers = 8;
  const std::vector<Parameter> all = ParametersOf(model, 1, 0);
  const LayerParameters layer = IndexOf(model).layers[0];
  // The residual branches shrink with the square root of twice the layers.
  for (const auto& [index, std] :
       std::vector<std::pair<int, double>>{{layer.qkv_w, 0.02}, {layer.proj_w, 0.005}}) {
    double sum = 0, squares = 0;
    const std::vector<float> values = ShardOf(all[index]);
    for (double value : values) sum += value, squares += value * value;
    const double n = static_cast<double>(values.size());
    EXPECT_NEAR(sum / n, 0, 5 * std / std::sqrt(n));  // five standard errors
    EXPECT_NEAR(std::sqrt(squares / n), std, 5 * std / std::sqrt(2 * n));
  }
}

// Every parameter stands at the index that has its name, and no other does.
TEST(ParametersTest, IndicesNameTheParametersTheyPointAt) {
  const std::vector<Parameter> all = ParametersOf(kModel, 2, 1);
  const ModelParameters index = IndexOf(all, 2);
  const auto name = [&](int i) { return all.at(i).name; };
  EXPECT_EQ(name(index.token_embedding), "embedding.token.weight");
  EXPECT_EQ(name(index.position_embedding), "embedding.position.weight");
  EXPECT_EQ(name(index.final_w), "final_norm.weight");
  EXPECT_EQ(name(index.final_b), "final_norm.bias");
  EXPECT_EQ(index.head, index.token_embedding);  // tied
  const LayerParameters& l = index.layers.at(1);
  const std::vector<int> layer = {l.ln1_w, l.ln1_b, l.qkv_w, l.qkv_b, l.proj_w, l.proj_b,
                                  l.ln2_w, l.ln2_b, l.fc1_w, l.fc1_b, l.fc2_w,  l.fc2_b};
  std::vector<std::string> names;
  for (int i : layer) names.push_back(name(i));
  EXPECT_THAT(names, ElementsAre("layers.1.ln1.weight", "layers.1.ln1.bias",
                                 "layers.1.attention.qkv.weight", "layers.1.attention.qkv.bias",
                                 "layers.1.attention.proj.weight", "layers.1.attention.proj.bias",
                                 "layers.1.ln2.weight", "layers.1.ln2.bias",
                                 "layers.1.mlp.fc1.weight", "layers.1.mlp.fc1.bias",
                                 "layers.1.mlp.fc2.weight", "layers.1.mlp.fc2.bias"));
  EXPECT_EQ(all.size(), 2u + 2 * 12 + 2);
}

TEST(ParametersTest, LlamaHasNoBiasesNoPositionsAndAHeadOfItsOwn) {
  const std::vector<Parameter> all = ParametersOf(kLlama, 1, 0);
  const ModelParameters index = IndexOf(all, 2);
  EXPECT_EQ(index.position_embedding, -1);
  EXPECT_EQ(index.final_b, -1);
  EXPECT_EQ(all.at(index.head).name, "head.weight");
  const LayerParameters& l = index.layers.at(0);
  EXPECT_THAT((std::vector<int>{l.ln1_b, l.qkv_b, l.proj_b, l.ln2_b, l.fc1_b, l.fc2_b}), Each(-1));
  EXPECT_EQ(all.size(), 1u + 2 * 6 + 1 + 1);
}

TEST(ParametersTest, AHeadOfItsOwnComesLastAndATiedOneIsTheEmbedding) {
  for (ModelSpec model : {kModel, kLlama}) {
    model.tied_head = true;
    const std::vector<Parameter> tied = ParametersOf(model, 2, 1);
    EXPECT_EQ(IndexOf(tied, 2).head, IndexOf(tied, 2).token_embedding);
    model.tied_head = false;
    const std::vector<Parameter> own = ParametersOf(model, 2, 1);
    ASSERT_EQ(own.size(), tied.size() + 1);
    for (size_t i = 0; i < tied.size(); ++i) EXPECT_EQ(own[i].name, tied[i].name);
    EXPECT_EQ(own.back().name, "head.weight");
    EXPECT_EQ(own.back().starts, own.front().starts);
    EXPECT_EQ(own.back().padding_from, model.vocab_size);
    EXPECT_EQ(IndexOf(own, 2).head, static_cast<int>(own.size()) - 1);
  }
}

TEST(ParametersTest, GroupedQueriesShareTheirKeyAndValueInOneShard) {
  const std::vector<Parameter> all = ParametersOf(kLlama, 2, 1);
  const ModelParameters index = IndexOf(all, 2);
  const Parameter& qkv = all[index.layers[0].qkv_w];
  // Four heads of two columns in two groups: two queries, a key and a value each.
  EXPECT_THAT(qkv.shape, ElementsAre(2, (2 + 2) * 2, 8));
  EXPECT_THAT(qkv.starts, ElementsAre(1, 0, 0));
  EXPECT_THAT(qkv.extents, ElementsAre(1, 8, 8));
  // Gate and up lie one after the other, each cut by rank.
  const Parameter& fc1 = all[index.layers[0].fc1_w];
  EXPECT_THAT(fc1.shape, ElementsAre(2, 16, 8));
  EXPECT_THAT(fc1.starts, ElementsAre(0, 8, 0));
  EXPECT_THAT(fc1.extents, ElementsAre(2, 8, 8));
}

TEST(ParametersTest, OnlyMatricesDecay) {
  for (const ModelSpec& model : {kModel, kLlama}) {
    for (const Parameter& p : ParametersOf(model, 1, 0))
      EXPECT_EQ(p.decay, p.init == Init::kNormal) << p.name;
  }
}

}  // namespace
}  // namespace stretto
