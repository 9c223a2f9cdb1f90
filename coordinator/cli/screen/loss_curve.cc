// SPDX-License-Identifier: Apache-2.0

// Draws on a matrix of dots, two by four per character (Braille patterns). A vertical run beside
// each point connects it with the one before; then the dots become characters, with marks in place
// of some and the axes around them.

#include "coordinator/cli/screen/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/screen/text_line.h"

namespace stretto::cli {
namespace {

struct Range {
  double low = 0, high = 0;

  bool Has(double value) const { return low <= value && value <= high; }

  // Returns the position of `value` among `count` dots.
  int Dot(double value, int count) const {
    if (high <= low) return count / 2;
    const double share = std::clamp((value - low) / (high - low), 0.0, 1.0);
    return static_cast<int>(std::lround(share * (count - 1)));
  }
};

// A dot matrix, origin at the bottom left.
class Canvas {
 public:
  Canvas(int columns, int rows, bool braille)
      : columns_(columns), rows_(rows), braille_(braille), cells_(columns * rows, 0) {}

  int width() const { return braille_ ? columns_ * 2 : columns_; }
  int height() const { return braille_ ? rows_ * 4 : rows_; }

  void Set(int x, int y) {
    const int top = height() - 1 - y;
    if (!braille_) {
      cells_[top * columns_ + x] = 1;
      return;
    }
    // Bits of U+2800: dots 1-3 and 7 on the left, 4-6 and 8 on the right.
    static constexpr uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    cells_[top / 4 * columns_ + x / 2] |= kBits[top % 4][x % 2];
  }

  // Puts a mark in place of the character at this dot.
  void Mark(int x, int y) {
    const int top = height() - 1 - y;
    marks_.insert(braille_ ? top / 4 * columns_ + x / 2 : top * columns_ + x);
  }
  const char* mark() const { return braille_ ? "○" : "o"; }

  // Sets a vertical run of dots.
  void Join(int x, int from, int to) {
    for (int y = std::min(from, to); y <= std::max(from, to); ++y) Set(x, y);
  }

  std::string Row(int row) const {
    std::string line;
    for (int column = 0; column < columns_; ++column) {
      const uint8_t cell = cells_[row * columns_ + column];
      if (marks_.count(row * columns_ + column) > 0) {
        line += mark();
      } else if (cell == 0) {
        line += ' ';
      } else if (!braille_) {
        line += '*';
      } else {
        line += '\xE2';
        line += static_cast<char>(0xA0 | (cell >> 6));
        line += static_cast<char>(0x80 | (cell & 0x3F));
      }
    }
    absl::StripTrailingAsciiWhitespace(&line);
    return line;
  }

 private:
  int columns_, rows_;
  bool braille_;
  std::vector<uint8_t> cells_;
  std::set<int> marks_;  // cells
};

Range RangeOf(const std::vector<CurvePoint>& points, double CurvePoint::*value) {
  Range range{points[0].*value, points[0].*value};
  for (const CurvePoint& point : points) {
    range = {std::min(range.low, point.*value), std::max(range.high, point.*value)};
  }
  return range;
}

// Of `points`, and without those that lie far away (DrawCurve).
Range RangeOfMost(const std::vector<CurvePoint>& points) {
  constexpr size_t kEnough = 20;
  constexpr double kTails = 0.02;
  const Range all = RangeOf(points, &CurvePoint::y);
  if (points.size() < kEnough) return all;
  std::vector<double> sorted;
  for (const CurvePoint& point : points) sorted.push_back(point.y);
  std::sort(sorted.begin(), sorted.end());
  const double last = static_cast<double>(sorted.size() - 1);
  const double low = sorted[static_cast<size_t>(std::ceil(kTails * last))];
  const double high = sorted[static_cast<size_t>(std::floor((1 - kTails) * last))];
  if (low == high) return all;
  return {std::max(all.low, 2 * low - high), std::min(all.high, 2 * high - low)};
}

std::vector<CurvePoint> FiniteOf(const std::vector<CurvePoint>& points) {
  std::vector<CurvePoint> finite;
  for (const CurvePoint& point : points) {
    if (std::isfinite(point.x) && std::isfinite(point.y)) finite.push_back(point);
  }
  return finite;
}

void Draw(const std::vector<CurvePoint>& points, const Range& x, const Range& y, Canvas* canvas) {
  std::vector<double> sum(canvas->width(), 0);
  std::vector<int> count(canvas->width(), 0);
  for (const CurvePoint& point : points) {
    const int column = x.Dot(point.x, canvas->width());
    sum[column] += point.y;
    ++count[column];
  }
  int last_column = -1, last_dot = 0;
  for (int column = 0; column < canvas->width(); ++column) {
    if (count[column] == 0) continue;
    const int dot = y.Dot(sum[column] / count[column], canvas->height());
    if (last_column < 0) canvas->Set(column, dot);
    int from = last_dot;
    for (int x_dot = last_column + 1; last_column >= 0 && x_dot <= column; ++x_dot) {
      const double share = static_cast<double>(x_dot - last_column) / (column - last_column);
      const int to = static_cast<int>(std::lround(last_dot + share * (dot - last_dot)));
      // Starts beside the neighbour's dot, so that a steep curve is connected without blots.
      canvas->Join(x_dot, from + (to > from ? 1 : to < from ? -1 : 0), to);
      from = to;
    }
    last_column = column;
    last_dot = dot;
  }
}

}  // namespace

std::vector<std::string> DrawCurve(const std::vector<CurvePoint>& points,
                                   const std::string& x_label, const CurveStyle& style,
                                   const std::vector<CurvePoint>& held_out) {
  const std::vector<CurvePoint> finite = FiniteOf(points), marks = FiniteOf(held_out);
  std::vector<std::string> notes;
  if (finite.size() < points.size()) {
    notes.push_back(
        absl::StrCat(points.size() - finite.size(), " of ", points.size(), " not finite"));
  }
  if (finite.empty()) return {notes.empty() ? "no points yet" : notes[0]};

  std::vector<CurvePoint> all = finite;
  all.insert(all.end(), marks.begin(), marks.end());
  const Range x = RangeOf(all, &CurvePoint::x), y = RangeOfMost(all);
  std::vector<CurvePoint> within, beyond;
  for (const CurvePoint& point : finite) (y.Has(point.y) ? within : beyond).push_back(point);
  if (!beyond.empty()) notes.push_back(absl::StrCat(beyond.size(), " beyond the scale"));
  const std::string top = absl::StrFormat("%.4g", y.high);
  const std::string bottom = absl::StrFormat("%.4g", y.low);
  const int label = std::max(top.size(), bottom.size());
  const int columns = std::max(style.width, 24) - label - 2;
  const int rows = std::max(style.height, 3);
  Canvas canvas(columns, rows, style.braille);
  Draw(within, x, y, &canvas);
  for (const CurvePoint& point : beyond) {
    canvas.Set(x.Dot(point.x, canvas.width()), y.Dot(point.y, canvas.height()));
  }
  for (const CurvePoint& mark : marks) {
    canvas.Mark(x.Dot(mark.x, canvas.width()), y.Dot(mark.y, canvas.height()));
  }
  if (!marks.empty()) notes.push_back(absl::StrCat(canvas.mark(), " held-out"));

  const char* wall = style.braille ? "│" : "|";
  const char* corner = style.braille ? "└" : "+";
  const char* floor = style.braille ? "─" : "-";
  std::vector<std::string> lines;
  for (int row = 0; row < rows; ++row) {
    const std::string& text = row == 0 ? top : row == rows - 1 ? bottom : "";
    lines.push_back(absl::StrCat(absl::StrFormat("%*s ", label, text), wall, canvas.Row(row)));
  }
  std::string base = absl::StrCat(std::string(label + 1, ' '), corner);
  for (int column = 0; column < columns; ++column) base += floor;
  lines.push_back(base);
  const std::string left = absl::StrFormat("%.6g", x.low);
  const std::string right = absl::StrFormat("%.6g", x.high);
  const std::string middle =
      notes.empty() ? x_label : absl::StrCat(x_label, " (", absl::StrJoin(notes, ", "), ")");
  const int gap = columns - Columns(left) - Columns(middle) - Columns(right);
  const int before = std::max(1, gap / 2), after = std::max(1, gap - gap / 2);
  lines.push_back(absl::StrCat(std::string(label + 2, ' '), left, std::string(before, ' '), middle,
                               std::string(after, ' '), right));
  return lines;
}

}  // namespace stretto::cli
