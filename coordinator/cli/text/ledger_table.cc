// SPDX-License-Identifier: Apache-2.0

// Both tables add up entries by row: a part, and for exposed time the group that was waited for.
// One has a column for each phase of a rank, the other for each stage.

#include "coordinator/cli/text/ledger_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/text/figures.h"
#include "coordinator/cli/text/table.h"
#include "proto/base/printable.h"
#include "proto/spec/job/layouts.h"
#include "proto/spec/job/ranks.h"

namespace stretto::cli {
namespace {

using v1alpha1::Ledger;

const char* PartName(Ledger::Part part) {
  switch (part) {
    case Ledger::COMPUTE_HIDING:
      return "compute, hiding";
    case Ledger::COMPUTE_ALONE:
      return "compute alone";
    case Ledger::EXPOSED:
      return "exposed";
    case Ledger::DATA_WAIT:
      return "data wait";
    case Ledger::CHECKPOINT_WAIT:
      return "checkpoint wait";
    case Ledger::PIPELINE_WAIT:
      return "pipeline wait";
    case Ledger::IDLE:
      return "idle";
    case Ledger::EVALUATION:
      return "evaluation";
    default:  // a part that only newer coordinators know
      return "unknown";
  }
}

// A row: a part and, for exposed time alone, its group, which is the one that the rank waited for.
using Row = std::pair<int, std::string>;
Row RowOf(const Ledger::Entry& entry) {
  return {entry.part(), entry.part() == Ledger::EXPOSED ? entry.group() : ""};
}
std::string NameOf(const Row& row) {
  std::string name = PartName(static_cast<Ledger::Part>(row.first));
  if (!row.second.empty()) absl::StrAppend(&name, " ", row.second);
  return name;
}

// Nothing where the kernel does not say.
std::string PreemptedText(const Ledger& ledger) {
  if (!ledger.has_preempted_seconds() || !(ledger.wall_seconds() > 0)) return "";
  return absl::StrFormat("preempted %s: %.3f s without a CPU, %d involuntary switches\n",
                         Percent(ledger.preempted_seconds() / ledger.wall_seconds()),
                         ledger.preempted_seconds(), ledger.involuntary_switches());
}

std::string Cell(double seconds) { return seconds == 0 ? "-" : absl::StrFormat("%.3f", seconds); }

}  // namespace

std::string LedgerTable(const Ledger& ledger, bool emulated) {
  std::vector<std::string> phases;
  std::map<Row, std::map<std::string, double>> parts;
  double sum = 0;
  for (const Ledger::Entry& entry : ledger.entries()) {
    parts[RowOf(entry)][entry.phase()] += entry.seconds();
    sum += entry.seconds();
    if (!entry.phase().empty() &&
        std::find(phases.begin(), phases.end(), entry.phase()) == phases.end()) {
      phases.push_back(entry.phase());
    }
  }
  const std::vector<std::string> order = {"prepare", "forward", "recompute", "backward",
                                          "optimizer"};
  std::stable_sort(phases.begin(), phases.end(), [&](const auto& a, const auto& b) {
    return std::find(order.begin(), order.end(), a) < std::find(order.begin(), order.end(), b);
  });

  std::vector<std::string> headings = {"seconds"};
  for (const std::string& phase : phases) headings.push_back(absl::StrCat(">", Escaped(phase)));
  headings.insert(headings.end(), {">other", ">total", ">share"});
  std::vector<std::vector<std::string>> rows;
  for (auto& [key, seconds] : parts) {
    std::vector<std::string> row = {NameOf(key)};
    double total = 0;
    for (const std::string& phase : phases) {
      row.push_back(Cell(seconds[phase]));
      total += seconds[phase];
    }
    row.insert(row.end(), {Cell(seconds[""]), Cell(total + seconds[""]),
                           Percent((total + seconds[""]) / sum)});
    rows.push_back(row);
  }
  std::vector<std::string> last(headings.size(), "");
  last.front() = "total";
  last[last.size() - 2] = Cell(sum);
  last.back() = Percent(sum / sum);
  rows.push_back(last);

  std::string out = Table(headings, rows);
  absl::StrAppendFormat(&out, "wall clock %.3f s over %d steps; ", ledger.wall_seconds(),
                        ledger.steps());
  const double overlap = OverlapRatio(ledger);
  if (std::isnan(overlap)) {
    out += "no communication\n";
  } else {
    absl::StrAppendFormat(&out, "overlap %s: %.3f of %.3f s of communication hidden%s\n",
                          Percent(overlap), ledger.hidden_seconds(), ledger.communication_seconds(),
                          emulated ? " (emulated link)" : "");
  }
  return out + PreemptedText(ledger);
}

std::string StageTable(const v1alpha1::Job& job) {
  const auto& ledgers = job.progress().rank_ledgers();
  const std::vector<int> sizes = spec::RanksOf(spec::ParallelismOf(job));
  if (sizes.size() <= 1 || ledgers.size() != std::accumulate(sizes.begin(), sizes.end(), 0))
    return "";
  std::vector<std::string> headings = {"share"};
  std::map<Row, std::vector<double>> parts;  // by stage
  std::vector<double> sums(sizes.size());
  int rank = 0;
  for (size_t stage = 0; stage < sizes.size(); ++stage) {
    headings.push_back(absl::StrCat(">stage ", stage));
    for (const int end = rank + sizes[stage]; rank < end; ++rank) {
      for (const Ledger::Entry& entry : ledgers[rank].entries()) {
        const auto seconds = parts.try_emplace(RowOf(entry), sums.size()).first;
        seconds->second[stage] += entry.seconds();
        sums[stage] += entry.seconds();
      }
    }
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [key, seconds] : parts) {
    std::vector<std::string>& row = rows.emplace_back(1, NameOf(key));
    for (size_t stage = 0; stage < sums.size(); ++stage)
      row.push_back(seconds[stage] == 0 ? "-" : Percent(seconds[stage] / sums[stage]));
  }
  return Table(headings, rows);
}

}  // namespace stretto::cli
