#include "worker/engine/model/parameters.h"

#include <cmath>
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

const ModelSpec kModel = SpecOf({}).model;

std::vector<float> ShardOf(const Parameter& parameter, int index, uint64_t seed = 7) {
  std::vector<float> values(static_cast<size_t>(parameter.count()), NAN);
  Initialise(parameter, index, seed, values.data());
  return values;
}

// Writes a shard into the full tensor.
void Place(const Parameter& p, const std::vector<float>& shard, std::vector<float>* full) {
  std::vector<int64_t> at(p.shape.size(), 0);
  for (float value : shard) {
    int64_t element = 0;
    for (size_t d = 0; d < at.size(); ++d) element = element * p.shape[d] + p.starts[d] + at[d];
    (*full)[static_cast<size_t>(element)] = value;
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < p.extents[d]) break;
      at[d] = 0;
    }
  }
}

TEST(ParametersTest, EveryTpSizeCutsItsShardsFromTheSameTensor) {
  const std::vector<Parameter> whole = ParametersOf(kModel, 1, 0);
  for (int tp_size : {2, 4}) {
    for (size_t i = 0; i < whole.size(); ++i) {
      const std::vector<float> full = ShardOf(whole[i], static_cast<int>(i));
      std::vector<float> gathered(full.size(), NAN);
      for (int rank = 0; rank < tp_size; ++rank) {
        const Parameter shard = ParametersOf(kModel, tp_size, rank)[i];
        EXPECT_EQ(shard.name, whole[i].name);
        EXPECT_EQ(shard.shape, whole[i].shape);
        Place(shard, ShardOf(shard, static_cast<int>(i)), &gathered);
      }
      EXPECT_EQ(std::memcmp(gathered.data(), full.data(), full.size() * sizeof(float)), 0)
          << whole[i].name;
    }
  }
}

TEST(ParametersTest, ShardsOfRanksDiffer) {
  const std::vector<Parameter> a = ParametersOf(kModel, 2, 0), b = ParametersOf(kModel, 2, 1);
  for (size_t i = 0; i < a.size(); ++i) {
    const int index = static_cast<int>(i);
    const bool differ = ShardOf(a[i], index) != ShardOf(b[i], index);
    EXPECT_EQ(differ, a[i].sharded() && a[i].init == Init::kNormal) << a[i].name;
  }
}

TEST(ParametersTest, PaddingRowsAreZeroAndTheOthersAreNot) {
  const Parameter embedding = ParametersOf(kModel, 1, 0)[kTokenEmbedding];
  const std::vector<float> values = ShardOf(embedding, kTokenEmbedding);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i] == 0, i >= static_cast<size_t>(kModel.vocab_size * kModel.hidden)) << i;
  }
}

TEST(ParametersTest, SeedsAndParametersDrawDifferentNumbers) {
  const std::vector<Parameter> all = ParametersOf(kModel, 1, 0);
  const LayerParameters zero = LayerParametersAt(0), one = LayerParametersAt(1);
  const Parameter& fc1 = all[static_cast<size_t>(zero.fc1_w)];
  EXPECT_NE(ShardOf(fc1, zero.fc1_w, 1), ShardOf(fc1, zero.fc1_w, 2));
  EXPECT_NE(ShardOf(fc1, zero.fc1_w), ShardOf(fc1, one.fc1_w));
}

TEST(ParametersTest, NormalInitialisationHasTheMeanAndDeviationOfGpt2) {
  ModelSpec model = kModel;
  model.hidden = 64;
  model.layers = 8;
  const std::vector<Parameter> all = ParametersOf(model, 1, 0);
  const LayerParameters layer = LayerParametersAt(0);
  // The residual branches shrink with the square root of twice the layers.
  for (const auto& [index, std] :
       std::vector<std::pair<int, double>>{{layer.qkv_w, 0.02}, {layer.proj_w, 0.005}}) {
    double sum = 0, squares = 0;
    const std::vector<float> values = ShardOf(all[static_cast<size_t>(index)], index);
    for (double value : values) sum += value, squares += value * value;
    const double n = static_cast<double>(values.size());
    EXPECT_NEAR(sum / n, 0, 5 * std / std::sqrt(n));  // five standard errors
    EXPECT_NEAR(std::sqrt(squares / n), std, 5 * std / std::sqrt(2 * n));
  }
}

TEST(ParametersTest, IndicesNameTheParametersTheyPointAt) {
  const std::vector<Parameter> all = ParametersOf(kModel, 2, 1);
  auto name = [&](int index) { return all.at(static_cast<size_t>(index)).name; };
  EXPECT_EQ(name(kTokenEmbedding), "embedding.token.weight");
  EXPECT_EQ(name(kPositionEmbedding), "embedding.position.weight");
  EXPECT_EQ(name(LayerParametersAt(1).qkv_w), "layers.1.attention.qkv.weight");
  EXPECT_EQ(name(LayerParametersAt(1).fc2_b), "layers.1.mlp.fc2.bias");
  EXPECT_EQ(name(FinalNormAt(2).w), "final_norm.weight");
  EXPECT_EQ(name(FinalNormAt(2).b), "final_norm.bias");
  EXPECT_EQ(all.size(), static_cast<size_t>(FinalNormAt(2).b) + 1);
}

TEST(ParametersTest, OnlyMatricesDecay) {
  for (const Parameter& p : ParametersOf(kModel, 1, 0))
    EXPECT_EQ(p.decay, p.init == Init::kNormal) << p.name;
}

}  // namespace
}  // namespace stretto
