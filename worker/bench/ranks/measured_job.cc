// SPDX-License-Identifier: Apache-2.0

// Connects a rank as a trainer does, but finds the others in a folder and not at a coordinator, and
// runs steps of engines that share the connections.

#include "worker/bench/ranks/measured_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/inputs.h"
#include "worker/bench/common/process_cpu.h"
#include "worker/bench/overlap/drain_link.h"
#include "worker/bench/overlap/file_store.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::bench {

using trainer::RankEngine;
using trainer::StepResult;

namespace {

// The ranks are started together. One that has not appeared by then was forgotten or has failed.
constexpr absl::Duration kMeeting = absl::Minutes(2);

// Whether some rank is in a group of `spec` that none of `others` has. Every rank finds the same.
bool AddsGroups(const EngineSpec& spec, const std::vector<EngineSpec>& others) {
  for (Rank rank : IdRange<Rank>(spec.world_size())) {
    for (const Group& group : GroupsOf(spec, rank)) {
      const bool known = std::any_of(others.begin(), others.end(), [&](const EngineSpec& other) {
        return FindGroup(GroupsOf(other, rank), group.name) >= 0;
      });
      if (!known) return true;
    }
  }
  return false;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MeasuredJob>> MeasuredJob::Connect(
    const std::vector<EngineSpec>& specs, const RankFlags& flags) {
  std::unique_ptr<MeasuredJob> job(new MeasuredJob);
  std::vector<EngineSpec> connected;
  for (const EngineSpec& spec : specs) {
    if (!AddsGroups(spec, connected)) continue;
    connected.push_back(spec);
    Connection& connection = job->connections_.emplace_back();
    connection.config.engine = spec;
    connection.config.rank = Rank::Of(flags.rank);
    connection.config.interface_address = flags.address;
    connection.config.meeting = kMeeting;
    ASSIGN_OR_RETURN(connection.device, trainer::RankDevice::Open(connection.config));
    FileStore store(flags.rendezvous, absl::StrCat("job", connected.size()));
    RETURN_IF_ERROR(connection.device->Connect(store, nullptr));
    const GroupLinks links = connection.device->links();
    const IdVector<GroupId, Group> groups = GroupsOf(spec, job->rank());
    for (GroupId group : groups.ids()) {
      if (FindGroup(job->groups_, groups[group].name) >= 0) continue;
      job->groups_.push_back(groups[group]);
      job->links_.push_back(links[group.position()]);
    }
  }
  return job;
}

GroupLinks MeasuredJob::LinksOf(const EngineSpec& spec) const {
  GroupLinks links;
  for (const Group& group : GroupsOf(spec, rank())) {
    const GroupId found = FindGroup(groups_, group.name);
    STRETTO_CHECK(found >= 0 && groups_[found] == group);
    links.push_back(links_[found.position()]);
  }
  return links;
}

absl::StatusOr<std::unique_ptr<RankEngine>> MeasuredJob::Make(const EngineSpec& spec,
                                                              Variant variant) {
  ASSIGN_OR_RETURN(auto engine,
                   RankEngine::Create(spec, rank(), variant, LinksOf(spec), backend(), {}));
  RETURN_IF_ERROR(engine->Initialise(kSeed));
  return engine;
}

absl::StatusOr<std::vector<StepResult>> MeasuredJob::FirstSteps(RankEngine& engine) {
  std::vector<StepResult> results;
  for (int step = 1; step <= trainer::kParitySteps; ++step) {
    FillInputs(connections_.front().config.engine, step, engine);
    RETURN_IF_ERROR(engine.executor().Run());
    ASSIGN_OR_RETURN(results.emplace_back(), trainer::ResultOf(engine));
  }
  return results;
}

absl::Status MeasuredJob::ExpectBits(const std::string& what, const std::vector<StepResult>& oracle,
                                     const std::vector<StepResult>& found) {
  ASSIGN_OR_RETURN(const bool differs,
                   trainer::AnyRank(control(), !trainer::SameBits(oracle, found)));
  if (!differs) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, ": found other bits than its serial oracle's"));
}

absl::StatusOr<double> MeasuredJob::Slowest(double mine) {
  ASSIGN_OR_RETURN(const auto all, trainer::ExchangeNumbers(control(), {mine}));
  double most = 0;
  for (const std::vector<double>& of_rank : all) most = std::max(most, of_rank[0]);
  return most;
}

absl::StatusOr<StepTime> MeasuredJob::Step(RankEngine& engine) {
  RETURN_IF_ERROR(DrainLink(control()));
  const double cpu = ProcessCpuSeconds();
  const int64_t begin = NowNanoseconds();
  RETURN_IF_ERROR(engine.executor().Run());
  StepTime time{.seconds = static_cast<double>(NowNanoseconds() - begin) * 1e-9,
                .cpu_seconds = ProcessCpuSeconds() - cpu};
  ASSIGN_OR_RETURN(time.seconds, Slowest(time.seconds));
  return time;
}

}  // namespace stretto::bench
