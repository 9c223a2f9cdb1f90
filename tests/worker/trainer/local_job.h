// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the ranks of a job as threads, connected by local communicators.

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "tests/worker/engine/local_groups.h"
#include "worker/engine/exec/backend.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/job_config.h"

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

}  // namespace stretto::trainer
