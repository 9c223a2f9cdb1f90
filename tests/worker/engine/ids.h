// SPDX-License-Identifier: Apache-2.0
#pragma once
// Indices as numbers, for matchers: EXPECT_THAT(ValuesOf(op.waits), ElementsAre(0, 2)).

#include <vector>

#include "worker/engine/program/index.h"

namespace stretto {

// `ids`: a list of any kind.
template <class Ids>
std::vector<int> ValuesOf(const Ids& ids) {
  std::vector<int> values;
  for (const auto id : ids) values.push_back(id.value());
  return values;
}

}  // namespace stretto
