// SPDX-License-Identifier: Apache-2.0
#pragma once
// A timeline as a picture: one SVG file that needs nothing else, for papers and pages.

#include <string>

#include "coordinator/cli/trace/timeline.h"

namespace stretto::cli {

// 1000 units wide, a band per rank. Phases have the colours of Okabe and Ito's palette, which
// colour-blind readers tell apart; what is exposed is hatched as well, for print without colour.
std::string DrawTimelineSvg(const Timeline& timeline);

}  // namespace stretto::cli
