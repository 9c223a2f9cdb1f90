// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/ranks/measured_job.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
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

absl::StatusOr<std::unique_ptr<MeasuredJob>> MeasuredJob::Connect(const EngineSpec& spec,
                                                                  const RankFlags& flags) {
  std::unique_ptr<MeasuredJob> job(new MeasuredJob);
  job->config_.engine = spec;
  job->config_.rank = Rank::Of(flags.rank);
  job->config_.interface_address = flags.address;
  ASSIGN_OR_RETURN(job->device_, trainer::RankDevice::Open(job->config_));
  FileStore store(flags.rendezvous);
  RETURN_IF_ERROR(job->device_->Connect(store, nullptr));
  return job;
}

GroupLinks MeasuredJob::LinksOf(const EngineSpec& spec) const {
  const IdVector<GroupId, Group> connected = GroupsOf(config_.engine, rank());
  const GroupLinks all = device_->links();
  GroupLinks links;
  for (const Group& group : GroupsOf(spec, rank())) {
    const GroupId found = FindGroup(connected, group.name);
    STRETTO_CHECK(found >= 0 && connected[found] == group);
    links.push_back(all[found.position()]);
  }
  return links;
}

absl::StatusOr<std::unique_ptr<RankEngine>> MeasuredJob::Make(const EngineSpec& spec,
                                                              Variant variant) {
  ASSIGN_OR_RETURN(auto engine, RankEngine::Create(spec, rank(), variant, LinksOf(spec),
                                                   device_->backend(), {}));
  RETURN_IF_ERROR(engine->Initialise(kSeed));
  return engine;
}

absl::StatusOr<std::vector<StepResult>> MeasuredJob::FirstSteps(RankEngine& engine) {
  std::vector<StepResult> results;
  for (int step = 1; step <= trainer::kParitySteps; ++step) {
    FillInputs(config_.engine, step, engine);
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
