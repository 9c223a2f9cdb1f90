// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/screen/ledger_bar.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/screen/text_line.h"
#include "coordinator/cli/text/figures.h"

namespace stretto::cli {
namespace {

using v1alpha1::Ledger;

struct Part {
  Ledger::Part part;
  const char* name;
  const char *glyph, *ascii;
  Ink ink;
};
constexpr Part kParts[] = {
    {Ledger::COMPUTE_HIDING, "hiding", "█", "#", Ink::kGreen},
    {Ledger::COMPUTE_ALONE, "alone", "▓", "=", Ink::kBlue},
    {Ledger::EXPOSED, "exposed", "▚", "!", Ink::kRed},
    {Ledger::PIPELINE_WAIT, "pipeline", "▢", "p", Ink::kYellow},
    {Ledger::DATA_WAIT, "data", "▒", "d", Ink::kMagenta},
    {Ledger::CHECKPOINT_WAIT, "checkpoint", "░", "c", Ink::kCyan},
    {Ledger::EVALUATION, "evaluation", "▁", "e", Ink::kYellow},
    {Ledger::IDLE, "idle", "·", ".", Ink::kGray},
};

}  // namespace

double ShareOf(const Ledger& ledger, Ledger::Part part) {
  double sum = 0, all = 0;
  for (const Ledger::Entry& entry : ledger.entries()) {
    all += entry.seconds();
    if (entry.part() == part) sum += entry.seconds();
  }
  return all > 0 ? sum / all : 0;
}

std::vector<std::string> LedgerBar(const std::deque<v1alpha1::StepReport>& steps,
                                   const BarStyle& style) {
  Ledger sum;
  for (const v1alpha1::StepReport& step : steps) {
    for (const Ledger::Entry& entry : step.ledger().entries()) *sum.add_entries() = entry;
    sum.set_communication_seconds(sum.communication_seconds() +
                                  step.ledger().communication_seconds());
    sum.set_hidden_seconds(sum.hidden_seconds() + step.ledger().hidden_seconds());
    if (step.ledger().has_preempted_seconds()) {
      sum.set_preempted_seconds(sum.preempted_seconds() + step.ledger().preempted_seconds());
      sum.set_wall_seconds(sum.wall_seconds() + step.ledger().wall_seconds());
    }
  }
  if (sum.entries_size() == 0) return {};
  const auto glyph = [&](const Part& part) { return style.unicode ? part.glyph : part.ascii; };
  const std::string overlap = absl::StrCat("  overlap ", Percent(OverlapRatio(sum)));
  TextLine bar(style.width, style.color);
  bar.Add("ledger  ");
  const int cells = std::max(bar.left() - Columns(overlap), 0);
  double before = 0;
  for (const Part& part : kParts) {
    const double after = before + ShareOf(sum, part.part);
    const int to = static_cast<int>(std::lround(after * cells));
    std::string run;
    for (int i = static_cast<int>(std::lround(before * cells)); i < to; ++i) run += glyph(part);
    bar.Add(run, part.ink);
    before = after;
  }
  std::vector<std::string> lines = {bar.FillUntil(Columns(overlap)).Add(overlap).text()};
  TextLine legend(style.width, style.color);
  const auto explain = [&](const char* mark, Ink ink, const std::string& text) {
    if (!legend.text().empty() && legend.left() < 2 + Columns(mark) + Columns(text)) {
      lines.push_back(legend.text());
      legend = TextLine(style.width, style.color);
    }
    legend.Add(legend.text().empty() ? "" : "  ").Add(mark, ink).Add(text);
  };
  for (const Part& part : kParts) {
    // Only some jobs evaluate.
    const bool rare = part.part == Ledger::EVALUATION || part.part == Ledger::PIPELINE_WAIT;
    if (rare && ShareOf(sum, part.part) == 0) continue;
    explain(glyph(part), part.ink,
            absl::StrFormat(" %s %.0f%%", part.name, ShareOf(sum, part.part) * 100));
  }
  // No part: it is in those above.
  if (sum.wall_seconds() > 0) {
    explain(
        "", Ink::kPlain,
        absl::StrFormat("preempted %.0f%%", sum.preempted_seconds() / sum.wall_seconds() * 100));
  }
  lines.push_back(legend.text());
  return lines;
}

}  // namespace stretto::cli
