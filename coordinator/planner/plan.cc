// SPDX-License-Identifier: Apache-2.0
#include "coordinator/planner/plan.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/cost/mfu.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/model/parameters.h"
#include "worker/engine/program/text.h"
#include "worker/engine/schedule/plan.h"
#include "worker/trainer/plan/arenas.h"
#include "worker/trainer/plan/engine_spec.h"

namespace stretto::planner {
namespace {

int64_t CountParameters(const ModelSpec& model, int tp_size, GroupRank tp_rank) {
  int64_t count = 0;
  for (const Parameter& parameter : ParametersOf(model, tp_size, tp_rank))
    count += parameter.count();
  return count;
}

absl::StatusOr<v1alpha1::Plan::Rank> RankOf(const EngineSpec& spec, Rank rank,
                                            trainer::Extras extras) {
  v1alpha1::Plan::Rank out;
  ASSIGN_OR_RETURN(const RankPlan plan, DraftPlan(spec, rank));
  ArenaBytes arenas = plan.arenas;
  if (extras.profiled || extras.evaluated) {
    ASSIGN_OR_RETURN(arenas, trainer::FullestArenas(spec, rank, extras));
  }
  for (size_t arena = 0; arena < arenas.size(); ++arena) {
    if (arenas[arena] == 0) continue;
    auto* added = out.add_arenas();
    added->set_name(NameOf(static_cast<ArenaClass>(arena)));
    added->set_bytes(arenas[arena]);
  }
  out.set_bytes(trainer::TotalBytes(arenas));
  out.set_parameters(CountParameters(spec.model, spec.tp_size, PlaceOf(spec, rank).tp_rank));
  out.set_operations(static_cast<int64_t>(plan.program.ops.size()));
  return out;
}

}  // namespace

absl::StatusOr<v1alpha1::Plan> PlanOf(const v1alpha1::JobSpec& spec) {
  ASSIGN_OR_RETURN(const EngineSpec engine, trainer::EngineSpecFrom(spec));
  v1alpha1::Plan plan;
  // Ranks differ in which elements they have, not in how many.
  ASSIGN_OR_RETURN(
      const v1alpha1::Plan::Rank first,
      RankOf(engine, 0, {.profiled = spec.profile().steps() > 0, .evaluated = spec.has_eval()}));
  for (int rank = 0; rank < engine.world_size(); ++rank) {
    *plan.add_ranks() = first;
    plan.mutable_ranks(rank)->set_rank(rank);
  }
  plan.set_parameters(CountParameters(engine.model, 1, 0));
  plan.set_flops_per_token(FlopsPerToken(engine.model));
  plan.set_smallest(spec.schedule().parameters().auto_merge_wgrads());
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
