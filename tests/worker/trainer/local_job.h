// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the ranks of a job as threads, connected by local communicators.

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_ops.h"
#include "tests/worker/engine/local_groups.h"
#include "worker/engine/exec/backend_cpu/cpu_backend.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/job_config.h"
#include "worker/trainer/rank_engine.h"

namespace stretto::trainer {

// What a rank has: `config` with its rank, the links of its groups, and a communicator of all
// ranks.
struct LocalRank {
  JobConfig config;
  std::vector<std::unique_ptr<Communicator>> groups;
  std::unique_ptr<Communicator> control;

  GroupLinks links() const {
    GroupLinks links;
    for (const auto& group : groups) links.push_back({.host = group.get()});
    return links;
  }
};

inline void OnLocalRanks(const JobConfig& config, const std::function<void(LocalRank&)>& run) {
  const int ranks = config.engine.world_size();
  LocalGroups groups;
  auto control = LocalGroup::Create(ranks);
  std::vector<LocalRank> all(static_cast<size_t>(ranks));
  for (Rank rank : IdRange<Rank>(ranks)) {
    LocalRank& local = all[rank.position()];
    local.config = config;
    local.config.rank = rank;
    local.control = std::move(control[rank.position()]);
    for (const Group& group : GroupsOf(config.engine, rank)) {
      local.groups.push_back(groups.Join(group, rank));
    }
  }
  std::vector<std::jthread> threads;
  for (LocalRank& local : all) threads.emplace_back([&run, &local] { run(local); });
}

// The same, where each rank has an engine of its own kernels, with the weights of seed 1.
inline void OnLocalEngines(const JobConfig& config,
                           const std::function<void(LocalRank&, RankEngine&)>& run) {
  OnLocalRanks(config, [&](LocalRank& rank) {
    const auto ops = MakeCpuOps();
    const auto backend = MakeCpuBackend(*ops);
    const auto engine = RankEngine::Create(config.engine, rank.config.rank, Variant::kSchedule,
                                           rank.links(), *backend, {});
    ASSERT_TRUE(engine.ok()) << engine.status();
    ASSERT_TRUE((*engine)->Initialise(1).ok());
    run(rank, **engine);
  });
}

}  // namespace stretto::trainer
