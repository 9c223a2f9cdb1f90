// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/spec/spec.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace stretto {
namespace {

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

}  // namespace
}  // namespace stretto
