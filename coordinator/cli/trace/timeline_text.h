// SPDX-License-Identifier: Apache-2.0
#pragma once
// A timeline drawn with characters.

#include <string>
#include <vector>

#include "coordinator/cli/trace/timeline.h"

namespace stretto::cli {

struct TimelineStyle {
  int width = 80;  // of the whole picture; at least 40
  bool unicode = true;
  bool color = false;  // phases by colour instead of letters
};

// Returns a title, a row per lane of each rank, an axis in milliseconds and a legend, without
// trailing blanks. A character shows the activity that took most of its time, and is blank if the
// lane was mostly idle; communication shows wherever there was some.
std::vector<std::string> DrawTimeline(const Timeline& timeline, const TimelineStyle& style);

}  // namespace stretto::cli
