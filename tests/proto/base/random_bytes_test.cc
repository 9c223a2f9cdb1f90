// SPDX-License-Identifier: Apache-2.0
#include "proto/base/random_bytes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "proto/base/ids.h"

namespace stretto {
namespace {

TEST(RandomBytesTest, AreAsManyAsAskedForAndNeverTheSame) {
  for (const size_t count : {0u, 1u, 16u, 256u}) EXPECT_EQ(RandomBytes(count).size(), count);
  EXPECT_NE(RandomBytes(16), RandomBytes(16));
  // Each value is expected once.
  const std::string many = RandomBytes(256);
  EXPECT_LT(std::count(many.begin(), many.end(), '\0'), 128);
}

TEST(RandomBytesTest, AUidIsOfThem) {
  EXPECT_THAT(NewUid(), testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(NewUid(), NewUid());
}

}  // namespace
}  // namespace stretto
