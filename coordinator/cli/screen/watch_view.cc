// SPDX-License-Identifier: Apache-2.0

// Builds the picture line by line for a given size. Fixed parts come first. The curve, the ranks
// and the events then share the remaining lines according to how many each could use.

#include "coordinator/cli/screen/watch_view.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/screen/ledger_bar.h"
#include "coordinator/cli/screen/rank_rows.h"
#include "coordinator/cli/screen/text_line.h"
#include "coordinator/cli/text/figures.h"
#include "coordinator/cli/text/job_text.h"
#include "coordinator/cli/text/resource_name.h"
#include "coordinator/cli/text/spec_text.h"
#include "proto/base/units.h"

namespace stretto::cli {
namespace {

using v1alpha1::Condition;
using v1alpha1::Job;

constexpr int kMaxPlot = 20;
constexpr int kAxis = 2;     // lines of a curve's axis
constexpr int kMinPlot = 3;  // lines of the smallest curve

class View {
 public:
  View(const WatchState& state, absl::Time now, const ViewStyle& style)
      : state_(state), job_(state.job), now_(now), style_(style) {}

  std::vector<std::string> Render() {
    AddHead();
    AddFigures();
    AddLedger();
    AddConditions();
    const int rest = style_.height - 1 - std::ssize(lines_);
    AddRest(std::max(rest, 0));
    lines_.resize(std::max(style_.height - 1, 0));
    if (style_.height > 0) {
      Add(Line().Add("q or Ctrl-C leaves; the job continues", Ink::kGray));
    }
    return std::move(lines_);
  }

 private:
  TextLine Line() const { return TextLine(style_.width, style_.color); }
  void Add(const TextLine& line) { lines_.push_back(line.text()); }
  const char* Glyph(const char* unicode, const char* ascii) const {
    return style_.unicode ? unicode : ascii;
  }
  // Repeats the glyph `count` times.
  std::string Run(int count, const char* unicode, const char* ascii) const {
    std::string out;
    for (int i = 0; i < count; ++i) out += Glyph(unicode, ascii);
    return out;
  }
  int64_t step() const {
    return state_.recent.empty() ? job_.progress().steps() : state_.recent.back().step();
  }
  int64_t total() const { return std::max(job_.progress().total_steps(), job_.spec().steps()); }

  void AddHead() {
    const Ink ink = job_.state() == Job::RUNNING || job_.state() == Job::SUCCEEDED ? Ink::kGreen
                    : job_.state() == Job::FAILED                                  ? Ink::kRed
                                                                                   : Ink::kYellow;
    TextLine title = Line();
    title.Add("job ").Add(ShortResourceName(job_.name()), Ink::kBold).Add("  ");
    title.Add(StateText(job_.state(), false), ink);
    title.Add(absl::StrCat("  step ", step(), "/", total()));
    const double seconds = StepSeconds();
    if (seconds > 0 && total() > step()) {
      title.Add(
          absl::StrCat("  ", Seconds(seconds * static_cast<double>(total() - step())), " left"));
    }
    const std::string clock = absl::FormatTime("%H:%M:%S UTC", now_, absl::UTCTimeZone());
    if (title.left() > Columns(clock)) title.FillUntil(Columns(clock)).Add(clock, Ink::kGray);
    Add(title);
    const bool emulated = job_.spec().has_emulated_link();
    Add(Line().Add(absl::StrCat(ScheduleText(job_.spec()), emulated ? "; " : "",
                                emulated ? LinkText(job_.spec()) : "")));
    const double done =
        total() > 0 ? static_cast<double>(step()) / static_cast<double>(total()) : 0;
    const std::string percent = absl::StrCat(" ", Percent(std::min(done, 1.0)));
    const int cells = std::max(style_.width - Columns(percent), 0);
    const int full = std::clamp(static_cast<int>(done * cells), 0, cells);
    Add(Line()
            .Add(Run(full, "━", "="), Ink::kGreen)
            .Add(Run(cells - full, "─", "-"), Ink::kGray)
            .Add(percent));
    const std::string why = job_.state() == Job::PENDING ? WhyText(job_) : "";
    if (!state_.lost.empty()) {
      Add(Line().Add(state_.lost, Ink::kRed));
    } else if (!why.empty()) {
      Add(Line().Add(why, Ink::kYellow));
    }
  }

  double StepSeconds() const {
    double seconds = 0;
    for (const v1alpha1::StepReport& step : state_.recent) seconds += step.wall_seconds();
    return state_.recent.empty() ? 0 : seconds / static_cast<double>(state_.recent.size());
  }

  void AddFigures() {
    if (state_.recent.empty()) {
      Add(Line().Add("no steps yet", Ink::kGray));
      return;
    }
    const v1alpha1::StepReport& last = state_.recent.back();
    TextLine loss = Line();
    loss.Add("loss    ").Add(Loss(last.loss()), Ink::kBold);
    loss.Add(absl::StrFormat("  from %s, gradient norm %.3g", Loss(state_.losses.front().y),
                             last.grad_norm()));
    if (last.update_skipped()) loss.Add(", update skipped", Ink::kRed);
    if (last.norm_not_finite()) loss.Add(", norm not finite", Ink::kRed);
    Add(loss);
    AddHeldOut();
    double seconds = 0, tokens = 0;
    for (const v1alpha1::StepReport& step : state_.recent) {
      seconds += step.wall_seconds();
      tokens += static_cast<double>(step.tokens());
    }
    TextLine speed = Line();
    speed.Add("speed   ").Add(FormatCount(seconds > 0 ? tokens / seconds : 0), Ink::kBold);
    speed.Add(absl::StrCat(" tokens/s  ", Seconds(StepSeconds()), " a step  "));
    Add(speed.Add(History(std::min(speed.left(), 40)), Ink::kCyan));
  }

  void AddHeldOut() {
    if (!state_.evaluated.has_evaluation()) return;
    const v1alpha1::Evaluation& evaluation = state_.evaluated.evaluation();
    TextLine line = Line();
    line.Add("eval    ").Add(Loss(evaluation.loss()), Ink::kBold);
    line.Add(absl::StrFormat("  perplexity %s, best loss %s, after step %d",
                             Perplexity(evaluation.perplexity()), Loss(evaluation.best_loss()),
                             state_.evaluated.step()));
    Add(line);
  }

  // Draws the newest speeds as a row of bars, from 0 to the fastest.
  std::string History(int columns) const {
    static constexpr const char* kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static constexpr const char* kAscii[] = {"_", "_", ".", ".", "-", "-", "=", "#"};
    const size_t count = std::min<size_t>(std::max(columns, 0), state_.speeds.size());
    const auto begin = state_.speeds.end() - static_cast<ptrdiff_t>(count);
    const double most = count > 0 ? *std::max_element(begin, state_.speeds.end()) : 0;
    std::string out;
    for (auto speed = begin; speed != state_.speeds.end(); ++speed) {
      const int level = std::clamp(static_cast<int>(*speed / most * 8), 0, 7);
      out += Glyph(kBars[level], kAscii[level]);
    }
    return out;
  }

  void AddLedger() {
    const std::vector<std::string> bar = LedgerBar(
        state_.recent, {.width = style_.width, .color = style_.color, .unicode = style_.unicode});
    lines_.insert(lines_.end(), bar.begin(), bar.end());
  }

  void AddConditions() {
    TextLine line = Line();
    for (const Condition& condition : job_.conditions()) {
      const bool good = condition.status() == Condition::TRUE;
      line.Add(line.text().empty() ? "" : "  ").Add(condition.type()).Add(" ");
      line.Add(good                                     ? Glyph("✓", "yes")
               : condition.status() == Condition::FALSE ? Glyph("✗", "NO")
                                                        : "?",
               good ? Ink::kGreen : Ink::kYellow);
    }
    if (!line.text().empty()) Add(line);
  }

  // Shares the remaining lines among curve, ranks and events.
  void AddRest(int rows) {
    const std::vector<RankRow> ranks = RankRows(job_);
    const std::vector<JobEvent> events = Events();
    const auto fit = [](int items, int room) {
      const int wanted = items == 0 ? 0 : items + 1;  // with a heading
      return room < 2 ? 0 : std::min(wanted, room);
    };
    int for_ranks = fit(ranks.size(), rows / 4);
    int for_events = fit(events.size(), rows / 3);
    int curve = std::min(rows - for_ranks - for_events, kMaxPlot + kAxis);
    if (curve < kMinPlot + kAxis || state_.losses.empty()) curve = 0;
    for_ranks = fit(ranks.size(), rows - curve - for_events);
    for_events = fit(events.size(), rows - curve - for_ranks);
    if (curve > 0) AddCurve(curve - kAxis);
    if (for_ranks > 0) AddRanks(ranks, for_ranks - 1);
    if (for_events > 0) AddEvents(events, for_events - 1);
  }

  void AddCurve(int height) {
    const CurveStyle style{.width = style_.width, .height = height, .braille = style_.unicode};
    for (const std::string& line :
         DrawCurve(state_.losses, "loss by step", style, state_.held_out)) {
      Add(Line().Add(line));
    }
  }

  // Shows the slowest ranks if not all fit.
  void AddRanks(std::vector<RankRow> ranks, int rows) {
    const size_t count = std::min<size_t>(std::max(rows, 0), ranks.size());
    if (count < ranks.size()) {
      std::stable_sort(ranks.begin(), ranks.end(), [](const RankRow& a, const RankRow& b) {
        return a.behind != b.behind ? a.behind > b.behind : a.share > b.share;
      });
    }
    int name = 6;
    for (size_t i = 0; i < count; ++i) name = std::max(name, Columns(ranks[i].worker));
    const std::string more =
        count < ranks.size() ? absl::StrCat("  (slowest of ", ranks.size(), ")") : "";
    // The stages of a pipeline wait for each other.
    const bool staged = !ranks.front().stage.empty();
    const auto of_stages = [&](const std::string& stage, const std::string& waits) {
      return staged ? absl::StrFormat("%5s  %8s  ", stage, waits) : "";
    };
    Add(Line().Add(
        absl::StrFormat("%4s  %-*s  %4s  %s%8s  %8s  %6s%s", "RANK", name, "WORKER", "SLOT",
                        of_stages("STAGE", "WAITS"), "STEP", "EXPOSED", "BEHIND", more),
        Ink::kGray));
    for (size_t i = 0; i < count; ++i) {
      const RankRow& row = ranks[i];
      Add(Line()
              .Add(absl::StrFormat("%4d  %-*s  %4s  %s%8s  %8s  ", row.rank, name, row.worker,
                                   row.slot, of_stages(row.stage, row.waits), row.step,
                                   row.exposed))
              .Add(absl::StrFormat("%6d", row.behind), row.behind > 0 ? Ink::kRed : Ink::kPlain));
    }
  }

  std::vector<JobEvent> Events() const {
    std::vector<JobEvent> events = EventsOf(job_, FailureShown::kHere);
    events.insert(events.end(), state_.seen.begin(), state_.seen.end());
    std::stable_sort(events.begin(), events.end(),
                     [](const JobEvent& a, const JobEvent& b) { return a.time < b.time; });
    return events;
  }

  // Shows the newest events in order of time.
  void AddEvents(const std::vector<JobEvent>& events, int rows) {
    Add(Line().Add("EVENTS", Ink::kGray));
    const size_t count = std::min<size_t>(std::max(rows, 0), events.size());
    for (auto event = events.end() - static_cast<ptrdiff_t>(count); event != events.end();
         ++event) {
      Add(Line()
              .Add(absl::FormatTime("%H:%M:%S  ", event->time, absl::UTCTimeZone()), Ink::kGray)
              .Add(event->text));
    }
  }

  const WatchState& state_;
  const Job& job_;
  const absl::Time now_;
  const ViewStyle& style_;
  std::vector<std::string> lines_;
};

}  // namespace

std::vector<std::string> RenderWatch(const WatchState& state, absl::Time now,
                                     const ViewStyle& style) {
  return View(state, now, style).Render();
}

}  // namespace stretto::cli
