// SPDX-License-Identifier: Apache-2.0
#pragma once
// The picture of `stretto job watch`. Pure.

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/cli/screen/watch_state.h"

namespace stretto::cli {

struct ViewStyle {
  int width = 80;
  int height = 24;
  bool color = true;
  bool unicode = true;
};

// Returns exactly `height` lines of at most `width` columns for any size. Parts that do not fit are
// left out, the curve first.
std::vector<std::string> RenderWatch(const WatchState& state, absl::Time now,
                                     const ViewStyle& style);

}  // namespace stretto::cli
