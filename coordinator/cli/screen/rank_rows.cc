// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/screen/rank_rows.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/screen/ledger_bar.h"
#include "coordinator/cli/text/figures.h"
#include "coordinator/cli/text/resource_name.h"
#include "proto/spec/job/layouts.h"
#include "proto/spec/job/ranks.h"

namespace stretto::cli {
namespace {

using v1alpha1::Job;
using v1alpha1::Ledger;

// Returns the stage of each rank; nothing if the model is in one stage.
std::vector<int> StagesOfRanks(const Job& job) {
  const std::vector<int> sizes = spec::RanksOf(spec::ParallelismOf(job));
  std::vector<int> stages;
  for (size_t stage = 0; stage < sizes.size() && sizes.size() > 1; ++stage)
    stages.insert(stages.end(), static_cast<size_t>(sizes[stage]), static_cast<int>(stage));
  return stages;
}

}  // namespace

// A rank's ledger counts its steps; the job's progress is that of the slowest rank.
std::vector<RankRow> RankRows(const Job& job) {
  const std::vector<int> stages = StagesOfRanks(job);
  const auto& ledgers = job.progress().rank_ledgers();
  int64_t most = 0, least = 0;
  for (const Ledger& ledger : ledgers) {
    most = std::max(most, ledger.steps());
    least = &ledger == &ledgers[0] ? ledger.steps() : std::min(least, ledger.steps());
  }
  std::vector<RankRow> rows;
  for (const v1alpha1::RankPlacement& placed : job.placement()) {
    RankRow row{placed.rank(),
                ShortResourceName(placed.worker()),
                absl::StrCat(placed.slot()),
                "",
                "-",
                "-",
                "-",
                0,
                0};
    const auto rank = static_cast<size_t>(placed.rank());
    if (rank < stages.size()) row.stage = absl::StrCat(stages[rank]);
    if (placed.rank() < ledgers.size()) {
      const Ledger& ledger = ledgers[placed.rank()];
      row.step = absl::StrCat(job.progress().steps() + ledger.steps() - least);
      row.share = ShareOf(ledger, Ledger::EXPOSED);
      row.exposed = Percent(row.share);
      row.waits = Percent(ShareOf(ledger, Ledger::PIPELINE_WAIT));
      row.behind = most - ledger.steps();
    }
    rows.push_back(row);
  }
  return rows;
}

}  // namespace stretto::cli
