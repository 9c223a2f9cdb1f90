// SPDX-License-Identifier: Apache-2.0
#pragma once
// A timeline as one self-contained SVG file, for papers and pages.

#include <string>

#include "coordinator/cli/trace/timeline.h"

namespace stretto::cli {

// The picture is 1000 units wide and has a band per rank. Its colours are those of palette.h, light
// or dark as its reader prefers; exposed time is also hatched, for print without colour.
std::string DrawTimelineSvg(const Timeline& timeline);

}  // namespace stretto::cli
