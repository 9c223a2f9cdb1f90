// SPDX-License-Identifier: Apache-2.0
#pragma once
// A curve drawn with characters.

#include <string>
#include <vector>

namespace stretto::cli {

struct CurvePoint {
  double x = 0;
  double y = 0;  // NaN and infinity are counted, not drawn
};

struct CurveStyle {
  int width = 72;       // columns of the whole picture with labels; at least 24
  int height = 16;      // lines of the plot; at least 3
  bool braille = true;  // 2x4 dots per character; false: one '*' per character
};

// Returns the plot with its axes, top line first, without trailing blanks. Points that share a
// column are averaged. `x_label` names the x axis. If no point is finite, the result is a single
// line that reports this.
std::vector<std::string> DrawCurve(const std::vector<CurvePoint>& points,
                                   const std::string& x_label, const CurveStyle& style);

}  // namespace stretto::cli
