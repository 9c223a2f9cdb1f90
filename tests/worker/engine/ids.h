// SPDX-License-Identifier: Apache-2.0
#pragma once
// Indices as numbers, for matchers: EXPECT_THAT(ValuesOf(op.waits), ElementsAre(0, 2)).

#include <vector>

#include "worker/engine/program/index.h"

namespace stretto {

template <class Tag>
std::vector<int> ValuesOf(const std::vector<Index<Tag>>& ids) {
  std::vector<int> values;
  for (Index<Tag> id : ids) values.push_back(id.value());
  return values;
}

}  // namespace stretto
