// SPDX-License-Identifier: Apache-2.0
#include "coordinator/planner/plan.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "proto/spec/job/normalize.h"
#include "worker/engine/cost/mfu.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/model/parameters.h"
#include "worker/engine/program/text.h"
#include "worker/engine/schedule/plan.h"
#include "worker/trainer/plan/arenas.h"
#include "worker/trainer/plan/engine_spec.h"

namespace stretto::planner {
namespace {

int64_t CountOf(const std::vector<Parameter>& parameters) {
  int64_t count = 0;
  for (const Parameter& parameter : parameters) count += parameter.count();
  return count;
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

}  // namespace

absl::StatusOr<v1alpha1::Plan> PlanOf(const v1alpha1::JobSpec& spec) {
  ASSIGN_OR_RETURN(const EngineSpec engine, trainer::EngineSpecFrom(spec));
  v1alpha1::Plan plan;
  const v1alpha1::JobSpec normal = spec::Normalize(spec);
  const trainer::Extras extras{.profiled = normal.profile().steps() > 0,
                               .evaluated_batches = normal.eval().batches()};
  for (Rank rank : IdRange<Rank>(engine.world_size())) {
    // Ranks of a stage differ in which elements they have, not in how many. With ZeRO, replicas also
    // differ by the rounding of the pieces that they update, some bytes for each.
    const Place place = PlaceOf(engine, rank);
    const bool first = place.replica == 0 && place.tp_rank == 0;
    v1alpha1::Plan::Rank planned;
    if (first) {
      ASSIGN_OR_RETURN(planned, RankOf(engine, rank, extras));
    } else {
      planned = plan.ranks(rank.value() - 1);
    }
    planned.set_rank(rank.value());
    *plan.add_ranks() = std::move(planned);
  }
  plan.set_parameters(CountOf(ParametersOf(engine.model, 1, 0)));
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
