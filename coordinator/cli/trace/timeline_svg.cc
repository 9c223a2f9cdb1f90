// SPDX-License-Identifier: Apache-2.0

// Draws bands of lanes from top to bottom at fixed sizes. Bars too narrow to see are drawn
// together, labels are drawn only where they fit, and the legend lists only what is in the picture.

#include "coordinator/cli/trace/timeline_svg.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "coordinator/cli/trace/palette.h"

namespace stretto::cli {
namespace {

constexpr double kWidth = 1000, kLeft = 96, kRight = 984;
constexpr double kTop = 84;  // upper edge of the first band
constexpr double kComputeHeight = 30, kCommHeight = 18, kLaneGap = 4, kBandGap = 20;
constexpr double kSliver = 0.6;  // bars narrower than this are drawn together
constexpr double kLetter = 4.9;  // width of a letter of bar labels

// In the order of kPhaseNames.
constexpr std::array<const char*, kPhases> kColors = {Light("forward"), Light("recompute"),
                                                      Light("backward"), Light("optimizer")};
constexpr const char* kRed = Light("exposed");

// Names of the palette in braces stand for its light colours.
constexpr char kHead[] = R"svg(<defs>
<pattern id="exposed" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="4" height="4" fill="{card}"/><rect width="2" height="4" fill="{exposed}"/></pattern>
<pattern id="waiting" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect width="0.7" height="4" fill="{exposed}" fill-opacity="0.55"/></pattern>
<pattern id="data" width="4" height="4" patternUnits="userSpaceOnUse"><circle cx="2" cy="2" r="0.9" fill="{data_wait}"/></pattern>
<pattern id="checkpoint" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect width="1.2" height="4" fill="{data_wait}"/></pattern>
<pattern id="evaluation" width="4" height="4" patternUnits="userSpaceOnUse"><rect width="4" height="1.2" fill="{evaluation}"/></pattern>
</defs>
<style>
text { font-family: Helvetica, Arial, 'Liberation Sans', sans-serif; fill: {ink}; }
.title { font-size: 15px; font-weight: bold; }
.small { font-size: 11px; fill: {faint}; }
.name { font-size: 12px; font-weight: bold; }
.small, .name { paint-order: stroke; stroke: {card}; stroke-width: 3px; }
.bar { font-size: 9px; fill: {card}; }
.bar.dark { fill: {ink}; }
</style>
)svg";

// Of a reader that prefers dark, these rules replace what attributes say; programs that do not know
// the rules show the light colours.
constexpr char kDarkText[] = R"svg(text { fill: {ink}; }
.small { fill: {faint}; }
.small, .name { stroke: {card}; }
.bar, .bar.dark { fill: {paper}; }
)svg";

std::string Filled(const char* text, bool dark) {
  std::vector<std::pair<std::string, std::string>> colors;
  for (const PaletteColor& color : kPalette) {
    colors.emplace_back(absl::StrCat("{", color.name, "}"), dark ? color.dark : color.light);
  }
  return absl::StrReplaceAll(text, colors);
}

std::string Head() {
  std::string rules;
  std::set<std::string> known;  // some names have one colour
  for (const PaletteColor& color : kPalette) {
    if (!known.insert(color.light).second) continue;
    for (const char* paint : {"fill", "stroke"}) {
      absl::StrAppend(&rules, "[", paint, "=\"", color.light, "\"] { ", paint, ": ", color.dark,
                      "; }\n");
    }
  }
  return absl::StrCat(Filled(kHead, false), "<style>\n@media (prefers-color-scheme: dark) {\n",
                      rules, Filled(kDarkText, true), "}\n</style>\n");
}

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// A printed dot is about 50 times the last of two digits.
std::string Coordinate(double value) {
  std::string text = absl::StrFormat("%.2f", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string Milliseconds(double seconds) {
  return absl::StrFormat("%.*f ms", seconds < 0.01 ? 2 : 1, seconds * 1e3);
}

double SecondsOf(const v1alpha1::Ledger& ledger, v1alpha1::Ledger::Part part) {
  double seconds = 0;
  for (const auto& entry : ledger.entries()) {
    if (entry.part() == part) seconds += entry.seconds();
  }
  return seconds;
}

class Picture {
 public:
  explicit Picture(const Timeline& timeline)
      : timeline_(timeline),
        scale_((kRight - kLeft) / static_cast<double>(std::max<int64_t>(timeline.length, 1))) {}

  std::string Svg() {
    double y = kTop;
    for (const TimelineRank& rank : timeline_.ranks) y = Band(rank, y) + kBandGap;
    const double bottom = y - kBandGap + 10;
    const std::string head = absl::StrCat(Title(), Legend()), grid = Grid(bottom);
    return absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", kWidth, " ",
                        Coordinate(bottom + 46), "\" role=\"img\" aria-label=\"",
                        Escaped(Headline()), "\">\n<rect width=\"100%\" height=\"100%\" fill=\"",
                        Light("card"), "\"/>\n", Head(), head, grid, body_, "</svg>\n");
  }

 private:
  double X(int64_t time) const { return kLeft + static_cast<double>(time) * scale_; }

  static std::string Text(double x, double y, const char* kind, const std::string& text,
                          const char* anchor = "start") {
    return absl::StrCat("<text x=\"", Coordinate(x), "\" y=\"", Coordinate(y), "\" class=\"", kind,
                        "\" text-anchor=\"", anchor, "\">", Escaped(text), "</text>\n");
  }

  std::string Headline() const { return absl::StrCat(timeline_.job, ", step ", timeline_.step); }

  std::string Title() const {
    const double overlap = timeline_.overlap_ratio();
    std::vector<std::string> facts = {
        LengthText(timeline_.length), timeline_.schedule,
        absl::StrCat(timeline_.ranks.size(), timeline_.ranks.size() == 1 ? " rank" : " ranks"),
        std::isnan(overlap) ? "no communication"
                            : absl::StrFormat("%.1f %% of communication hidden", overlap * 100)};
    if (timeline_.emulated_link) facts.push_back("emulated link");
    if (timeline_.machines > 1) {
      facts.push_back(absl::StrCat(timeline_.machines, " machines aligned by wall clock"));
    }
    return absl::StrCat(Text(kLeft, 24, "title", Headline()),
                        Text(kLeft, 41, "small", absl::StrJoin(facts, "  ·  ")));
  }

  // Lists only what is in the picture.
  std::string Legend() const {
    struct Entry {
      std::string fill, name;
      bool communicates;
    };
    std::vector<Entry> entries;
    for (int phase = 0; phase < kPhases; ++phase) {
      if (used_phases_[phase]) {
        entries.push_back({kColors[phase], kPhaseNames[phase], false});
      }
    }
    if (communicates_) entries.push_back({kColors[0], "communication, hidden", true});
    if (exposed_) entries.push_back({"url(#exposed)", "exposed", false});
    if (waiting_) entries.push_back({"url(#waiting)", "waiting for it", false});
    if (data_) entries.push_back({"url(#data)", "data wait", false});
    if (checkpoint_) entries.push_back({"url(#checkpoint)", "checkpoint wait", false});
    if (evaluation_) entries.push_back({"url(#evaluation)", "evaluation", false});
    std::string out;
    double x = kLeft;
    for (const Entry& entry : entries) {
      const bool framed = entry.fill[0] == 'u';
      absl::StrAppend(
          &out, "<rect x=\"", Coordinate(x), "\" y=\"52\" width=\"16\" height=\"10\" ", "fill=\"",
          entry.fill, "\"", entry.communicates ? " fill-opacity=\"0.4\"" : "",
          framed ? absl::StrCat(" stroke=\"", Light("faint"), "\" stroke-width=\"0.4\"") : "",
          "/>\n", Text(x + 21, 61, "small", entry.name));
      x += 21 + 6.2 * static_cast<double>(entry.name.size()) + 18;
    }
    return out;
  }

  // Draws vertical lines behind the bands, and the axis below them.
  std::string Grid(double bottom) const {
    const int64_t tick = TickDistance(timeline_.length, 12);
    std::string lines, labels;
    for (int64_t time = 0; time <= timeline_.length; time += tick) {
      const std::string x = Coordinate(X(time));
      absl::StrAppend(&lines, "M", x, " ", kTop - 8, "V", Coordinate(bottom + 4));
      absl::StrAppend(&labels, Text(X(time), bottom + 17, "small", TickText(time), "middle"));
    }
    return absl::StrCat("<path d=\"", lines, "\" stroke=\"", Light("line"),
                        "\" stroke-width=\"0.8\"/>\n", "<path d=\"M", kLeft, " ",
                        Coordinate(bottom), "H", kRight, "\" stroke=\"", Light("ink"),
                        "\" stroke-width=\"0.8\"/>\n", labels,
                        Text((kLeft + kRight) / 2, bottom + 35, "small",
                             "milliseconds since the start of the step", "middle"));
  }

  // Draws a rank and returns the lower edge of its band.
  double Band(const TimelineRank& rank, double y) {
    const double idle = SecondsOf(rank.ledger, v1alpha1::Ledger::IDLE);
    const double exposed = SecondsOf(rank.ledger, v1alpha1::Ledger::EXPOSED);
    const double communication = rank.ledger.communication_seconds();
    std::vector<std::string> facts;
    if (communication > 0) {
      facts = {absl::StrCat(Milliseconds(rank.ledger.hidden_seconds()), " of ",
                            Milliseconds(communication), " hidden"),
               absl::StrCat("exposed ", Milliseconds(exposed))};
    }
    facts.push_back(absl::StrCat("idle ", Milliseconds(idle)));
    absl::StrAppend(&body_, Text(kLeft, y, "name", absl::StrCat("rank ", rank.rank)),
                    Text(kRight, y, "small", absl::StrJoin(facts, ", "), "end"));
    y += 7;
    for (const TimelineLane& lane : rank.lanes) {
      const double height = lane.communicates ? kCommHeight : kComputeHeight;
      absl::StrAppend(&body_, Text(kLeft - 8, y + height / 2 + 4, "small", lane.name, "end"));
      Lane(rank, lane, y, height);
      y += height + kLaneGap;
    }
    return y - kLaneGap;
  }

  void Lane(const TimelineRank& rank, const TimelineLane& lane, double y, double height) {
    // Draws the step itself, so that idle time is visible.
    absl::StrAppend(&body_, "<path d=\"M", Coordinate(X(rank.step.begin)), " ",
                    Coordinate(y + height / 2), "H", Coordinate(X(rank.step.end)), "\" stroke=\"",
                    Light("idle"), "\" stroke-width=\"0.8\"/>\n");
    Bars(lane, y, height);
    Spans(lane.exposed, y, height, lane.communicates ? "exposed" : "waiting",
          lane.communicates ? &exposed_ : &waiting_);
    Spans(lane.data_waits, y, height, "data", &data_);
    Spans(lane.checkpoint_waits, y, height, "checkpoint", &checkpoint_);
    Spans(lane.evaluations, y, height, "evaluation", &evaluation_);
    communicates_ = communicates_ || lane.communicates;
  }

  void Bars(const TimelineLane& lane, double y, double height) {
    std::array<std::string, kPhases> paths;
    std::string labels;
    for (size_t i = 0; i < lane.bars.size();) {
      const TimelineBar& bar = lane.bars[i];
      const double begin = X(bar.span.begin);
      double end = X(bar.span.end);
      const bool sliver = end - begin < kSliver;
      for (++i; sliver && i < lane.bars.size(); ++i) {
        const TimelineBar& next = lane.bars[i];
        if (next.phase != bar.phase || X(next.span.begin) - end > kSliver / 2 ||
            X(next.span.end) - X(next.span.begin) >= kSliver) {
          break;
        }
        end = std::max(end, X(next.span.end));
      }
      const double width = end - begin;
      // Leaves a hairline between neighbours if there is room for one.
      Rect(begin, y, width > 2.5 ? width - 0.4 : std::max(width, 0.15), height, &paths[bar.phase]);
      if (!sliver && width > kLetter * static_cast<double>(bar.label.size()) + 4 && height > 20) {
        const bool dark = bar.phase == 1 || bar.phase == 2;
        absl::StrAppend(&labels, Text(begin + width / 2, y + height / 2 + 3,
                                      dark ? "bar dark" : "bar", bar.label, "middle"));
      }
      if (!lane.communicates) used_phases_[bar.phase] = true;
    }
    for (size_t phase = 0; phase < paths.size(); ++phase) {
      if (paths[phase].empty()) continue;
      absl::StrAppend(&body_, "<path fill=\"", kColors[phase], "\"",
                      lane.communicates ? " fill-opacity=\"0.4\"" : "", " d=\"", paths[phase],
                      "\"/>\n");
    }
    absl::StrAppend(&body_, labels);
  }

  void Spans(const std::vector<Span>& spans, double y, double height, const char* pattern,
             bool* used) {
    std::string wide, narrow;  // a pattern needs some width to be visible
    for (const Span& span : spans) {
      const double width = X(span.end) - X(span.begin);
      Rect(X(span.begin), y, width, height, width >= 2 ? &wide : &narrow);
    }
    *used = *used || !spans.empty();
    const bool exposed = std::string(pattern) == "exposed";
    if (!wide.empty()) {
      absl::StrAppend(&body_, "<path fill=\"url(#", pattern, ")\"",
                      exposed ? absl::StrCat(" stroke=\"", kRed, "\" stroke-width=\"0.5\"") : "",
                      " d=\"", wide, "\"/>\n");
    }
    if (exposed && !narrow.empty()) {
      absl::StrAppend(&body_, "<path fill=\"", kRed, "\" d=\"", narrow, "\"/>\n");
    }
  }

  static void Rect(double x, double y, double width, double height, std::string* path) {
    absl::StrAppend(path, "M", Coordinate(x), " ", Coordinate(y), "h", Coordinate(width), "v",
                    Coordinate(height), "h-", Coordinate(width), "z");
  }

  const Timeline& timeline_;
  const double scale_;
  std::string body_;
  std::array<bool, kPhases> used_phases_{};
  bool communicates_ = false, exposed_ = false, waiting_ = false, data_ = false,
       checkpoint_ = false, evaluation_ = false;
};

}  // namespace

std::string DrawTimelineSvg(const Timeline& timeline) { return Picture(timeline).Svg(); }

}  // namespace stretto::cli
