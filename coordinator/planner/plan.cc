// SPDX-License-Identifier: Apache-2.0

// Drafts the program of one rank of each kind: ranks of a stage have tensors of equal sizes, but
// may differ in transfers and, with ZeRO, in alignment.

#include "coordinator/planner/plan.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/spec/job/normalize.h"
#include "worker/engine/cost/mfu.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/layout/transfers.h"
#include "worker/engine/memory/plan.h"
#include "worker/engine/model/buckets.h"
#include "worker/engine/model/parameters.h"
#include "worker/engine/program/text.h"
#include "worker/engine/schedule/plan.h"
#include "worker/trainer/plan/arenas.h"
#include "worker/trainer/plan/engine_spec.h"
#include "worker/trainer/plan/writers.h"

namespace stretto::planner {
namespace {

int64_t CountOf(const std::vector<Parameter>& parameters) {
  int64_t count = 0;
  for (const Parameter& parameter : parameters) count += parameter.count();
  return count;
}

// Ranks of a stage differ in which elements they have, not in how many. With ZeRO, replicas update
// equal parts of the parameters that begin and end in different ones, so alignment adds some bytes
// more to one than to another. Returns the replicas, those with most first.
std::vector<int> LargestReplicas(const EngineSpec& spec, int stage) {
  std::vector<int> replicas(static_cast<size_t>(ReplicasOf(spec, stage)));
  std::iota(replicas.begin(), replicas.end(), 0);
  if (spec.zero == 0) return replicas;
  const std::vector<Parameter> parameters = ParametersOf(spec, RankAt(spec, {.stage = stage}));
  const Buckets buckets(spec, stage, parameters);
  constexpr int64_t kElements = kArenaAlignment / SizeOf(DType::kF32);
  std::vector<int64_t> units(replicas.size());  // of alignment
  for (int replica : replicas) {
    for (size_t i = 0; i < parameters.size(); ++i) {
      units[static_cast<size_t>(replica)] +=
          (buckets.UpdatedBy(replica, i).count() + kElements - 1) / kElements;
    }
  }
  std::stable_sort(replicas.begin(), replicas.end(), [&](int a, int b) {
    return units[static_cast<size_t>(a)] > units[static_cast<size_t>(b)];
  });
  return replicas;
}

// Ranks of a stage may differ in what they send and receive. Returns one of each kind, in the
// largest replica that has it.
std::vector<Rank> KindsOf(const EngineSpec& spec, int stage) {
  std::vector<Rank> ranks;
  std::set<std::string> kinds;
  for (int replica : LargestReplicas(spec, stage)) {
    for (int shard = 0; shard < TpSizeOf(spec, stage); ++shard) {
      const Place place{.stage = stage, .replica = replica, .tp_rank = GroupRank::Of(shard)};
      if (kinds.insert(TransferKindOf(spec, place)).second) ranks.push_back(RankAt(spec, place));
    }
  }
  return ranks;
}

absl::StatusOr<v1alpha1::Plan::Rank> RankOf(const EngineSpec& spec, Rank rank,
                                            trainer::Extras extras) {
  v1alpha1::Plan::Rank out;
  ASSIGN_OR_RETURN(const RankPlan plan, DraftPlan(spec, rank));
  ArenaBytes arenas = plan.arenas;
  if (extras.profiled || extras.evaluated_batches > 0) {
    ASSIGN_OR_RETURN(arenas, trainer::FullestArenas(spec, rank, extras));
  }
  for (size_t arena = 0; arena < arenas.size(); ++arena) {
    if (arenas[arena] == 0) continue;
    auto* added = out.add_arenas();
    added->set_name(NameOf(static_cast<ArenaClass>(arena)));
    added->set_bytes(arenas[arena]);
  }
  out.set_bytes(trainer::TotalBytes(arenas));
  out.set_parameters(CountOf(ParametersOf(spec, rank)));
  out.set_operations(static_cast<int64_t>(plan.program.ops.size()));
  return out;
}

// Whether checkpoints may be asynchronous (JobConfig::saves_between_steps).
bool CopiesState(const v1alpha1::JobSpec& spec) {
  const v1alpha1::CheckpointSpec& checkpoint = spec.checkpoint();
  return !checkpoint.disabled() && checkpoint.interval_steps() > 0 &&
         checkpoint.interval_steps() < spec.steps() &&
         (checkpoint.asynchronous() || !checkpoint.has_asynchronous());
}

// Returns the mean over the ranks of a class, whose first rank and number are set.
int64_t CopyOf(const trainer::Writers& writers, const v1alpha1::Plan::Rank& planned) {
  int64_t bytes = 0;
  for (int i = 0; i < planned.count(); ++i) bytes += writers.BytesOf(Rank::Of(planned.rank() + i));
  return (bytes + planned.count() - 1) / planned.count();
}

}  // namespace

absl::StatusOr<v1alpha1::Plan> PlanOf(const v1alpha1::JobSpec& spec) {
  ASSIGN_OR_RETURN(const EngineSpec engine, trainer::EngineSpecFrom(spec));
  v1alpha1::Plan plan;
  const v1alpha1::JobSpec normal = spec::Normalize(spec);
  const trainer::Extras extras{.profiled = normal.profile().steps() > 0,
                               .evaluated_batches = normal.eval().batches()};
  std::optional<trainer::Writers> writers;
  if (CopiesState(normal)) writers.emplace(engine);
  for (int stage = 0; stage < engine.pp_size; ++stage) {
    v1alpha1::Plan::Rank planned;
    for (Rank rank : KindsOf(engine, stage)) {
      ASSIGN_OR_RETURN(v1alpha1::Plan::Rank of_kind, RankOf(engine, rank, extras));
      if (of_kind.bytes() > planned.bytes()) planned = std::move(of_kind);
    }
    planned.set_rank(RankAt(engine, {.stage = stage}).value());
    planned.set_count(ReplicasOf(engine, stage) * TpSizeOf(engine, stage));
    planned.set_stage(stage);
    if (writers.has_value()) planned.set_checkpoint_copy_bytes(CopyOf(*writers, planned));
    *plan.add_ranks() = std::move(planned);
  }
  plan.set_parameters(CountOf(ParametersOf(engine.model, 1, 0)));
  plan.set_flops_per_token(FlopsPerToken(engine.model));
  plan.set_smallest(spec.schedule().parameters().auto_merge_wgrads() ||
                    spec.schedule().pipeline().auto_warm_up());
  return plan;
}

absl::StatusOr<std::string> ProgramText(const v1alpha1::JobSpec& spec, Rank rank) {
  ASSIGN_OR_RETURN(const EngineSpec engine, trainer::EngineSpecFrom(spec));
  if (rank < 0 || rank.value() >= engine.world_size()) {
    return absl::InvalidArgumentError(absl::StrCat("--program: found rank ", rank.value(),
                                                   ", expected 0 to ", engine.world_size() - 1));
  }
  ASSIGN_OR_RETURN(const RankPlan plan, BuildPlan(engine, rank));
  return Print(plan.program);
}

}  // namespace stretto::planner
