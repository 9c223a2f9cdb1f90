// SPDX-License-Identifier: Apache-2.0

// Each character covers a span of time. The shares of that span are summed by kind of activity, and
// the character shows the largest.

#include "coordinator/cli/trace/timeline_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace stretto::cli {
namespace {

// The kinds of activity that a character can show: phases of computation first.
enum Paint {
  kHidden = kPhases,
  kExposed,
  kWaiting,
  kData,
  kCheckpoint,
  kEvaluation,
  kBlank,
  kPaints
};

struct Ink {
  std::string full, partly;  // partly: less than half of its time
  const char* color;         // of the terminal; empty: default
};

class Drawing {
 public:
  Drawing(const Timeline& timeline, const TimelineStyle& style)
      : timeline_(timeline), style_(style) {
    for (const TimelineRank& rank : timeline.ranks) {
      for (const TimelineLane& lane : rank.lanes) {
        label_width_ = std::max<int>(label_width_, Label(rank, lane, true).size());
      }
    }
    columns_ = std::max(10, std::max(style.width, 40) - label_width_ - 1);
    const std::array<const char*, kPhases> colors = {"34", "36", "33", "32"};
    for (int phase = 0; phase < kPhases; ++phase) {
      const char letter = absl::ascii_toupper(static_cast<unsigned char>(kPhaseNames[phase][0]));
      inks_[phase] =
          style.color && style.unicode
              ? Ink{"█", "▒", colors[phase]}
              : Ink{std::string(1, letter),
                    std::string(1, absl::ascii_tolower(static_cast<unsigned char>(letter))),
                    colors[phase]};
    }
    const bool unicode = style.unicode;
    inks_[kHidden] = {unicode ? "─" : "-", unicode ? "─" : "-", "2"};
    inks_[kExposed] = {unicode ? "█" : "#", unicode ? "▒" : "#", "31"};
    inks_[kWaiting] = {unicode ? "·" : ".", unicode ? "·" : ".", "31"};
    inks_[kData] = {"d", "d", "35"};
    inks_[kCheckpoint] = {"c", "c", "35"};
    inks_[kEvaluation] = {"e", "e", "35"};
    inks_[kBlank] = {" ", " ", ""};
  }

  std::vector<std::string> Lines() {
    std::vector<std::string> lines = {Title()};
    for (const TimelineRank& rank : timeline_.ranks) {
      bool first = true;
      for (const TimelineLane& lane : rank.lanes) {
        const std::string label = Label(rank, lane, std::exchange(first, false));
        lines.push_back(Trimmed(
            absl::StrCat(label, std::string(label_width_ - label.size() + 1, ' '), Row(lane))));
      }
    }
    for (std::string& line : Axis()) lines.push_back(Trimmed(std::move(line)));
    lines.push_back(Legend());
    return lines;
  }

 private:
  using Cell = std::array<double, kPaints>;  // shares of a character's time

  static std::string Trimmed(std::string line) {
    absl::StripTrailingAsciiWhitespace(&line);
    return line;
  }

  std::string Title() const {
    const double overlap = timeline_.overlap_ratio();
    return absl::StrCat("job ", timeline_.job, " step ", timeline_.step, ": ",
                        LengthText(timeline_.length), ", ", timeline_.schedule, ", ",
                        timeline_.ranks.size(), timeline_.ranks.size() == 1 ? " rank" : " ranks",
                        std::isnan(overlap) ? ", no communication"
                                            : absl::StrFormat(", overlap %.1f %%", overlap * 100),
                        timeline_.emulated_link ? " (emulated link)" : "");
  }

  static std::string Label(const TimelineRank& rank, const TimelineLane& lane, bool first) {
    const std::string name = absl::StrCat("rank ", rank.rank, " ");
    return (first ? name : std::string(name.size(), ' ')) + lane.name;
  }

  static int PaintOf(const TimelineLane& lane, const TimelineBar& bar) {
    if (lane.communicates) return kHidden;
    return bar.phase;
  }

  void Add(Span span, int paint, std::vector<Cell>* cells) const {
    const double scale =
        static_cast<double>(columns_) / static_cast<double>(std::max<int64_t>(timeline_.length, 1));
    // A worker may report a span that begins after its step.
    const double begin = std::clamp<double>(static_cast<double>(span.begin) * scale, 0, columns_);
    const double end = std::min<double>(columns_, static_cast<double>(span.end) * scale);
    for (int column = static_cast<int>(begin); column < columns_ && column < end; ++column) {
      (*cells)[column][paint] +=
          std::max(0.0, std::min<double>(end, column + 1) - std::max<double>(begin, column));
    }
  }

  std::string Row(const TimelineLane& lane) const {
    std::vector<Cell> cells(columns_, Cell{});
    for (const TimelineBar& bar : lane.bars) {
      Add(bar.span, PaintOf(lane, bar), &cells);
    }
    for (const Span& span : lane.exposed) {
      Add(span, lane.communicates ? kExposed : kWaiting, &cells);
    }
    for (const Span& span : lane.data_waits) Add(span, kData, &cells);
    for (const Span& span : lane.checkpoint_waits) Add(span, kCheckpoint, &cells);
    for (const Span& span : lane.evaluations) Add(span, kEvaluation, &cells);
    std::string row;
    const char* color = "";
    for (Cell& cell : cells) {
      if (lane.communicates) cell[kHidden] -= cell[kExposed];  // its bars include exposed time
      double busy = 0;
      for (const double share : cell) busy += share;
      // Collectives are short compared with computation, and this picture is about them.
      cell[kBlank] = lane.communicates ? (busy > 0.05 ? 0 : 1) : 1 - busy;
      const size_t paint = std::max_element(cell.begin(), cell.end()) - cell.begin();
      Set(inks_[paint].color, &color, &row);
      row += cell[paint] >= 0.5 ? inks_[paint].full : inks_[paint].partly;
    }
    Set("", &color, &row);
    return row;
  }

  void Set(const char* wanted, const char** current, std::string* out) const {
    if (!style_.color || std::string(wanted) == *current) return;
    absl::StrAppend(out, "\x1b[0m", *wanted == '\0' ? "" : absl::StrCat("\x1b[", wanted, "m"));
    *current = wanted;
  }

  std::vector<std::string> Axis() const {
    const int64_t tick = TickDistance(timeline_.length, std::max(2, columns_ / 10));
    const std::string margin(label_width_ + 1, ' ');
    std::string line = margin, text = margin;
    int at = 0;  // columns drawn
    for (int64_t time = 0; time <= timeline_.length; time += tick) {
      const int column =
          static_cast<int>(static_cast<double>(columns_ - 1) * static_cast<double>(time) /
                           static_cast<double>(std::max<int64_t>(timeline_.length, 1)));
      for (; at < column; ++at) line += style_.unicode ? "─" : "-";
      line += time == 0 ? (style_.unicode ? "├" : "|") : (style_.unicode ? "┼" : "+");
      ++at;
      std::string label = TickText(time);
      if (time == 0) label += " ms";
      const size_t place = margin.size() + column;
      if (place < text.size() && time > 0) continue;  // no room
      if (place + label.size() > margin.size() + columns_) continue;
      text += std::string(place - text.size(), ' ') + label + " ";
    }
    for (; at < columns_; ++at) line += style_.unicode ? "─" : "-";
    return {line, text};
  }

  std::string Legend() const {
    std::array<bool, kPaints> used{};
    for (const TimelineRank& rank : timeline_.ranks) {
      for (const TimelineLane& lane : rank.lanes) {
        for (const TimelineBar& bar : lane.bars) {
          used[PaintOf(lane, bar)] = true;
        }
        if (!lane.exposed.empty()) used[lane.communicates ? kExposed : kWaiting] = true;
        if (!lane.data_waits.empty()) used[kData] = true;
        if (!lane.checkpoint_waits.empty()) used[kCheckpoint] = true;
        if (!lane.evaluations.empty()) used[kEvaluation] = true;
      }
    }
    const std::array<const char*, kPaints> names = {
        "forward", "recompute", "backward",  "optimizer",       "communication, hidden",
        "exposed", "waiting",   "data wait", "checkpoint wait", "evaluation"};
    std::string legend;
    const char* color = "";
    for (size_t paint = 0; paint < kBlank; ++paint) {
      if (!used[paint]) continue;
      absl::StrAppend(&legend, legend.empty() ? "" : "  ");
      Set(inks_[paint].color, &color, &legend);
      legend += inks_[paint].full;
      Set("", &color, &legend);
      absl::StrAppend(&legend, " ", names[paint]);
    }
    return legend;
  }

  const Timeline& timeline_;
  const TimelineStyle style_;
  int label_width_ = 0;
  int columns_ = 0;
  std::array<Ink, kPaints> inks_;
};

}  // namespace

std::vector<std::string> DrawTimeline(const Timeline& timeline, const TimelineStyle& style) {
  return Drawing(timeline, style).Lines();
}

}  // namespace stretto::cli
