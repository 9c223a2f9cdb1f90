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
  int width = 72;       // of the whole picture, axis labels included; at least 24
  int height = 16;      // lines of the plot; at least 3
  bool braille = true;  // 2x4 dots a character; false: one '*' a character
};

// The plot with its axes, top line first, no trailing blanks. Points that share a column are
// averaged. `x_label` names the x axis. Without one finite point: a single line that says so.
std::vector<std::string> DrawCurve(const std::vector<CurvePoint>& points,
                                   const std::string& x_label, const CurveStyle& style);

}  // namespace stretto::cli
