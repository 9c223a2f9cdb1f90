// SPDX-License-Identifier: Apache-2.0

// No job starts later because of those behind it. A random cluster is copied: in one copy the jobs
// behind the first in line stay, in the other they are cancelled before slots become free. Running
// jobs end in the same random order in both, so the first in line must start after as many ends.

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"
#include "coordinator/core/core.h"

namespace stretto::coordinator::testing {
namespace {

class Cluster {
 public:
  explicit Cluster(uint64_t seed) : random_(seed) {
    const uint64_t workers = 2 + Pick(4);
    for (uint64_t i = 0; i < workers; ++i) {
      WorkerRegistered event;
      event.id = absl::StrCat("w", i);
      event.incarnation = "i";
      event.session = static_cast<int64_t>(i) + 1;
      const uint64_t slots = 1 + Pick(4);
      for (uint64_t slot = 0; slot < slots; ++slot)
        event.devices.push_back({.slot = static_cast<int32_t>(slot), .kind = 1, .description = ""});
      EXPECT_TRUE(core.Apply(event, {}).status.ok());
    }
  }

  void Submit() {
    CreateJob event;
    event.job_id = event.uid = absl::StrCat("j", ++jobs_);
    const auto size = static_cast<int32_t>(1 + Pick(4));
    event.gang.stages.assign(1 + Pick(2),
                             {.blocks = static_cast<int32_t>(1 + Pick(2)), .size = size});
    if (Pick(4) == 0) event.gang.stages.front().size = static_cast<int32_t>(1 + Pick(4));
    event.gang.split_blocks = Pick(8) == 0;
    event.device_kind = 1;
    // Larger than the cluster: refused.
    core.Apply(event, {}).status.IgnoreError();
  }

  uint64_t Pick(uint64_t n) { return random_() % n; }

  Core core;

 private:
  std::mt19937_64 random_;
  int jobs_ = 0;
};

std::vector<std::string> Active(const Core& core) {
  std::vector<std::string> ids;
  for (const JobRecord* job : core.Jobs()) {
    if (IsActive(job->state)) ids.push_back(job->id);
  }
  return ids;
}

// The first job that waits and could run; empty if none does.
std::string First(const Core& core) {
  Placer empty(core.ClusterView());
  for (const JobRecord* job : core.Jobs()) {
    if (job->state == JobState::kPending && empty.IsPossible(core.Queued(*job))) return job->id;
  }
  return "";
}

void End(Core& core, const std::string& id) {
  const JobRecord job = *core.FindJob(id);
  for (int32_t rank = 0; rank < job.world_size(); ++rank) {
    RankReported report;
    const std::string& worker = job.ranks[static_cast<size_t>(rank)].worker;
    report.worker = worker;
    report.session = core.FindWorker(worker)->session;
    report.job_uid = job.uid;
    report.epoch = job.epoch;
    report.rank = Rank::Of(rank);
    report.sequence = 1;
    RankExited exit;
    exit.reason = "Completed";
    report.report = exit;
    ASSERT_TRUE(core.Apply(report, {}).status.ok());
  }
}

bool Started(const Core& core, const std::string& id) { return core.FindJob(id)->attempt > 0; }

TEST(BackfillTest, FirstInLineStartsNoLaterThanWithoutBackfill) {
  int compared = 0, backfilled = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    Cluster cluster(seed);
    while (First(cluster.core).empty() && Active(cluster.core).size() < 30) cluster.Submit();
    const std::string first = First(cluster.core);
    if (first.empty()) continue;
    std::vector<std::string> running = Active(cluster.core);
    for (size_t i = running.size(); i > 1; --i) std::swap(running[i - 1], running[cluster.Pick(i)]);
    Core alone = cluster.core;
    for (int i = 0; i < 8; ++i) cluster.Submit();
    Core& crowded = cluster.core;
    for (const std::string& id : running) {
      if (Started(alone, first)) break;
      End(alone, id);
      End(crowded, id);
      ++compared;
      backfilled += Active(crowded).size() > Active(alone).size();
      ASSERT_EQ(Started(crowded, first), Started(alone, first)) << "seed " << seed;
    }
    EXPECT_TRUE(Started(alone, first)) << "seed " << seed;
  }
  EXPECT_GT(compared, 1000);
  EXPECT_GT(backfilled, 100);
}

}  // namespace
}  // namespace stretto::coordinator::testing
