// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/model/buckets.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/layout/layout.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;

EngineSpec Spec(Layout layout, int zero = 0) {
  layout.zero = zero;
  return SpecOf(layout);
}

std::vector<std::string> NamesOf(const Buckets& buckets) {
  std::vector<std::string> names;
  for (const Bucket& bucket : buckets.all()) names.push_back(bucket.name);
  return names;
}

TEST(BucketsTest, HalfALayerIsOneWhereReplicasAddItUp) {
  const EngineSpec one = Spec({}), two = Spec({.dp_size = 2});
  const Buckets of_one(one, 0, ParametersOf(one, 0)), of_two(two, 0, ParametersOf(two, 0));
  EXPECT_EQ(of_one.all().size(), ParametersOf(one, 0).size());
  EXPECT_THAT(NamesOf(of_two),
              ElementsAre("embedding.token.weight", "embedding.position.weight",
                          "layers.0.attention", "layers.0.mlp", "layers.1.attention",
                          "layers.1.mlp", "final_norm.weight", "final_norm.bias"));
}

// Every element is in one piece, pieces of a part are in its range, and all parts are equally long.
TEST(BucketsTest, PartsShareTheElements) {
  for (Family family : EveryFamily()) {
    for (bool sequence_parallel : {false, true}) {
      for (int dp_size : {1, 2, 3, 7}) {
        const EngineSpec spec =
            Spec({.family = family, .dp_size = dp_size, .sequence_parallel = sequence_parallel});
        const std::vector<Parameter> parameters = ParametersOf(spec, 1);
        const Buckets buckets(spec, 0, parameters);
        for (size_t i = 0; i < parameters.size(); ++i) {
          const Bucket& bucket = buckets.Of(i);
          EXPECT_EQ(bucket.parts, bucket.name == kReplicatedBucket ? 1 : dp_size);
          EXPECT_GE(bucket.parts * bucket.part_count(), bucket.count);
          int64_t next = 0;
          for (const Piece& piece : buckets.PiecesOf(i)) {
            EXPECT_EQ(piece.range.begin, next);
            EXPECT_GT(piece.range.count(), 0);
            next = piece.range.end;
            EXPECT_EQ((buckets.FirstOf(i) + piece.range.begin) / bucket.part_count(), piece.part);
            EXPECT_EQ((buckets.FirstOf(i) + piece.range.end - 1) / bucket.part_count(), piece.part);
          }
          EXPECT_EQ(next, parameters[i].count());
        }
      }
    }
  }
}

// The norm has a part for each piece, so pieces must not depend on stages or ZeRO.
TEST(BucketsTest, PiecesAreThoseOfTheWholeModel) {
  for (bool sequence_parallel : {false, true}) {
    Layout layout{.dp_size = 3, .sequence_parallel = sequence_parallel, .layers = 4};
    const EngineSpec whole = Spec(layout);
    const std::vector<Parameter> all = ParametersOf(whole, 0);
    const Buckets of_all(whole, 0, all);
    layout.pp_size = 2;
    const EngineSpec staged = Spec(layout, 1);
    for (Rank rank : {Rank::Of(0), Rank::Of(6)}) {
      const std::vector<Parameter> parameters = ParametersOf(staged, rank);
      const Buckets buckets(staged, PlaceOf(staged, rank).stage, parameters);
      for (size_t i = 0; i < parameters.size(); ++i) {
        const std::vector<Piece> found = buckets.PiecesOf(i),
                                 expected = of_all.PiecesOf(parameters[i].index);
        ASSERT_EQ(found.size(), expected.size()) << parameters[i].name;
        for (size_t piece = 0; piece < found.size(); ++piece)
          EXPECT_EQ(found[piece].range, expected[piece].range) << parameters[i].name;
      }
    }
  }
}

TEST(BucketsTest, AReplicaUpdatesAllOrWithZeroItsPart) {
  const EngineSpec plain = Spec({.tp_size = 1, .dp_size = 2});
  const EngineSpec shared = Spec({.tp_size = 1, .dp_size = 2}, 1);
  const std::vector<Parameter> parameters = ParametersOf(plain, 0);
  const Buckets of_plain(plain, 0, parameters), of_shared(shared, 0, parameters);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ElementRange all{0, parameters[i].count()};
    EXPECT_EQ(of_plain.UpdatedBy(1, i), all);
    EXPECT_EQ(of_shared.UpdatedBy(0, i).count() + of_shared.UpdatedBy(1, i).count(), all.end);
  }
}

// Every element of a parameter has holders: with ZeRO a replica's part, and all ranks of it that
// have the same shard.
TEST(HoldersTest, AreTheRanksThatHoldTheSame) {
  const auto holders_of = [](Layout layout, int zero, const std::string& name) {
    const EngineSpec spec = Spec(layout, zero);
    for (const Parameter& parameter : ParametersOf(spec.model, spec.tp_size, 0)) {
      if (parameter.name == name) return HoldersOf(spec)[parameter.index];
    }
    return std::vector<Holders>();
  };
  const auto ranks = [](const Holders& part) {
    std::vector<int> numbers;
    for (Rank rank : part.ranks) numbers.push_back(rank.value());
    return numbers;
  };
  const Layout layout{.dp_size = 2, .pp_size = 2};
  auto found = holders_of(layout, 0, "layers.0.mlp.fc1.weight");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(ranks(found[0]), ElementsAre(0, 2));
  EXPECT_THAT(ranks(found[1]), ElementsAre(1, 3));
  found = holders_of(layout, 0, "layers.1.ln1.weight");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(ranks(found[0]), ElementsAre(4, 5, 6, 7));
  // The second chunk of the first stage.
  const Layout chunked{.pp_size = 2, .chunks = 2, .layers = 4};
  EXPECT_THAT(ranks(holders_of(chunked, 0, "layers.2.ln1.weight").at(0)), ElementsAre(0, 1));
  EXPECT_THAT(ranks(holders_of(chunked, 0, "layers.3.ln1.weight").at(0)), ElementsAre(2, 3));
  // A tied embedding is in the first stage and in the last one.
  found = holders_of(layout, 1, "embedding.token.weight");
  ASSERT_EQ(found.size(), 4u);
  EXPECT_THAT(ranks(found[0]), ElementsAre(0, 4));
  EXPECT_THAT(ranks(found[1]), ElementsAre(2, 6));
  EXPECT_THAT(ranks(found[2]), ElementsAre(1, 5));
  EXPECT_THAT(ranks(found[3]), ElementsAre(3, 7));
  EXPECT_EQ(found[0].range.end, found[1].range.begin);
  // Stages that differ have other shards of it, and those of the first stage count.
  Layout unlike = layout;
  unlike.stages = {{.layers = 1, .tp_size = 1}, {.layers = 1, .tp_size = 2}};
  found = holders_of(unlike, 0, "embedding.token.weight");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(ranks(found[0]), ElementsAre(0, 1));
  found = holders_of(unlike, 0, "layers.1.mlp.fc1.weight");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(ranks(found[1]), ElementsAre(3, 5));
  // A stage of one replica deals nothing, and the copy of the embedding is of other parts.
  Layout replicas = layout;
  replicas.stages = {{.layers = 1, .tp_size = 2, .dp_size = 1}, {.layers = 1, .tp_size = 2}};
  found = holders_of(replicas, 1, "layers.0.mlp.fc1.weight");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(ranks(found[0]), ElementsAre(0));
  EXPECT_EQ(holders_of(replicas, 1, "layers.1.attention.qkv.weight").size(), 4u);
  found = holders_of(replicas, 1, "embedding.token.weight");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_THAT(ranks(found[1]), ElementsAre(1));
  EXPECT_THAT(ranks(holders_of(replicas, 0, "embedding.token.weight").at(1)), ElementsAre(1, 3, 5));
  // A short parameter is in one part of its layer.
  found = holders_of(layout, 1, "layers.0.ln1.weight");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(ranks(found[0]), ElementsAre(0, 1));
}

}  // namespace
}  // namespace stretto
