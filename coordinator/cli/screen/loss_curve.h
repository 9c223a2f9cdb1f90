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
// column are averaged. `x_label` names the x axis. `held_out` is drawn as marks on the curve. If no
// point is finite, the result is a single line that reports this.
//
// One point that lies far away from the others does not flatten them. With 20 points or more the y
// axis exceeds the range of the middle 96 % by at most as much as that is long, on either side;
// what lies beyond is drawn at the border and counted.
std::vector<std::string> DrawCurve(const std::vector<CurvePoint>& points,
                                   const std::string& x_label, const CurveStyle& style,
                                   const std::vector<CurvePoint>& held_out = {});

}  // namespace stretto::cli
