// SPDX-License-Identifier: Apache-2.0

// Plans the memory of the ranks that share a node, one of each kind, and compares the sum with what
// is free. A refusal is planned again with what takes less: more that backward recomputes and, with
// stages, the order that keeps the fewest micro-batches in flight.

#include "worker/trainer/memory_check.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/layout/transfers.h"
#include "worker/engine/schedule/pipeline/order.h"
#include "worker/trainer/plan/arenas.h"
#include "worker/trainer/plan/writers.h"

namespace stretto::trainer {
namespace {

constexpr size_t kNamedArenas = 3;

// "optimizer 2.0 GiB, activation 1.5 GiB, gradient 1.0 GiB"
std::string Largest(const ArenaBytes& arenas) {
  std::vector<size_t> order(arenas.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return arenas[a] > arenas[b]; });
  order.resize(kNamedArenas);
  return absl::StrJoin(order, ", ", [&](std::string* out, size_t arena) {
    absl::StrAppend(out, NameOf(static_cast<ArenaClass>(arena)), " ", FormatBytes(arenas[arena]));
  });
}

// Returns the spec with the order that keeps the fewest micro-batches in flight; nothing if it has
// no fewer.
std::optional<EngineSpec> WithFewestInFlight(EngineSpec spec) {
  const auto in_flight = [](const EngineSpec& spec) {
    return OrderFor(spec.schedule, StageOfRank(spec, /*rank=*/0, spec.micro_batches)).InFlight();
  };
  if (spec.chunks_per_stage > 1) return std::nullopt;  // its order has no other warm-ups
  const int now = in_flight(spec);
  spec.schedule.pipeline = kDefaultPipeline;
  spec.schedule.warm_up = {};
  return in_flight(spec) < now ? std::optional(spec) : std::nullopt;
}

int64_t BytesOfRanks(const std::vector<RankArenas>& ranks) {
  int64_t total = 0;
  for (const RankArenas& rank : ranks) total += TotalBytes(rank.arenas) + rank.copy;
  return total;
}

int64_t BytesOfCopies(const std::vector<RankArenas>& ranks) {
  int64_t total = 0;
  for (const RankArenas& rank : ranks) total += rank.copy;
  return total;
}

// The ranks of this node, as far as they are known.
std::vector<Rank> RanksOnNode(const JobConfig& config) {
  return config.ranks_on_node.empty() ? std::vector<Rank>{config.rank} : config.ranks_on_node;
}

int64_t CopiesOnNode(const JobConfig& config) {
  const Writers writers(config.engine);
  int64_t bytes = 0;
  for (Rank rank : RanksOnNode(config)) bytes += writers.BytesOf(rank);
  return bytes;
}

// "; with schedule.parameters.recompute selective at least 3.0 GiB": the first choice with which
// the ranks fit, or else the last one; "" if backward recomputes all already.
std::string WithMoreRecomputed(const JobConfig& config, int64_t total, int64_t available) {
  std::string hint;
  for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
    if (recompute <= config.engine.schedule.recompute) continue;
    JobConfig other = config;
    other.engine.schedule.recompute = recompute;
    // A weave plan that the job gives may be of another program.
    const absl::StatusOr<std::vector<RankArenas>> ranks = ArenasOf(other);
    if (!ranks.ok() || BytesOfRanks(*ranks) >= total) continue;
    hint = absl::StrCat("; with schedule.parameters.recompute ", NameOf(recompute), " at least ",
                        FormatBytes(BytesOfRanks(*ranks)));
    if (BytesOfRanks(*ranks) <= available) break;
  }
  return hint;
}

bool AsksForCopies(const JobConfig& config) {
  return config.saves_between_steps() && config.checkpoint_asynchronous.value_or(false);
}

}  // namespace

absl::StatusOr<std::vector<RankArenas>> ArenasOf(const JobConfig& config) {
  const std::vector<Rank> own = {config.rank};
  std::optional<Writers> writers;
  if (AsksForCopies(config) && !config.on_gpu) writers.emplace(config.engine);
  // Ranks of a stage have arenas of equal sizes, unless they send and receive differently. With
  // ZeRO, those of replicas differ by the rounding of the pieces that they update.
  std::map<std::tuple<int, int, std::string>, ArenaBytes> known;  // by stage, replica and transfers
  std::vector<RankArenas> ranks;
  for (Rank rank : config.on_gpu ? own : RanksOnNode(config)) {
    const Place place = PlaceOf(config.engine, rank);
    const auto [arenas, fresh] =
        known.try_emplace({place.stage, config.engine.zero > 0 ? place.replica : 0,
                           TransferKindOf(config.engine, place)});
    if (fresh) {
      ASSIGN_OR_RETURN(
          arenas->second,
          FullestArenas(config.engine, rank,
                        {.profiled = config.profile_steps > 0,
                         .evaluated_batches = config.evaluates() ? config.evaluation.batches : 0}));
    }
    ranks.push_back({.rank = rank,
                     .arenas = arenas->second,
                     .stage = config.engine.pp_size > 1 ? place.stage : -1,
                     .copy = writers.has_value() ? writers->BytesOf(rank) : 0});
  }
  return ranks;
}

absl::Status CheckMemory(const std::vector<RankArenas>& ranks, bool on_gpu, int64_t available) {
  const int64_t total = BytesOfRanks(ranks);
  const RankArenas* largest = &ranks.front();
  for (const RankArenas& rank : ranks) {
    if (TotalBytes(rank.arenas) > TotalBytes(largest->arenas)) largest = &rank;
  }
  if (total <= available) return absl::OkStatus();
  const int64_t most = TotalBytes(largest->arenas);
  const bool alike = std::all_of(ranks.begin(), ranks.end(), [&](const RankArenas& rank) {
    return TotalBytes(rank.arenas) == most && rank.stage == largest->stage;
  });
  const std::string of_stage = largest->stage < 0 ? "" : absl::StrCat(" of stage ", largest->stage);
  const int64_t copies = BytesOfCopies(ranks);
  return absl::ResourceExhaustedError(absl::StrCat(
      "memory of this ", on_gpu ? "rank's GPU" : "node", ": found ", FormatBytes(available),
      " available, expected at least ", FormatBytes(total), " for ", ranks.size(),
      ranks.size() == 1 ? " rank of the job: " : " ranks of the job: ",
      alike ? "" : absl::StrCat("rank ", largest->rank.value(), of_stage, " has "),
      FormatBytes(most), alike ? absl::StrCat(" each", of_stage, " (") : " (",
      Largest(largest->arenas), ")",
      copies == 0 ? ""
                  : absl::StrCat(" and ", FormatBytes(copies),
                                 " for copies (checkpoint.asynchronous: true)")));
}

absl::Status CheckMemory(const JobConfig& config, int64_t available) {
  ASSIGN_OR_RETURN(const std::vector<RankArenas> ranks, ArenasOf(config));
  const absl::Status refused = CheckMemory(ranks, config.on_gpu, available);
  if (refused.ok()) return refused;
  std::string less;
  if (const int64_t copies = BytesOfCopies(ranks); copies > 0) {
    absl::StrAppend(&less, "; with checkpoint.asynchronous: false at least ",
                    FormatBytes(BytesOfRanks(ranks) - copies));
  }
  if (config.engine.pp_size > 1) {
    if (const std::optional<EngineSpec> fewer = WithFewestInFlight(config.engine)) {
      JobConfig other = config;
      other.engine = *fewer;
      ASSIGN_OR_RETURN(const std::vector<RankArenas> others, ArenasOf(other));
      absl::StrAppend(&less, "; with schedule.pipeline.order ", kDefaultPipeline, " at least ",
                      FormatBytes(BytesOfRanks(others)));
    }
  }
  absl::StrAppend(&less, WithMoreRecomputed(config, BytesOfRanks(ranks), available));
  return absl::ResourceExhaustedError(absl::StrCat(refused.message(), less));
}

int64_t CopyBytes(const JobConfig& config) { return Writers(config.engine).BytesOf(config.rank); }

absl::Status CheckCopies(const JobConfig& config, int64_t available) {
  if (!AsksForCopies(config)) return absl::OkStatus();
  const int64_t copies = CopiesOnNode(config);
  if (copies <= available) return absl::OkStatus();
  const size_t ranks = RanksOnNode(config).size();
  return absl::ResourceExhaustedError(absl::StrCat(
      "memory of this node: found ", FormatBytes(available), " available, expected at least ",
      FormatBytes(copies), " for the copies of ", ranks, ranks == 1 ? " rank" : " ranks",
      " of the job (checkpoint.asynchronous: true)"));
}

absl::StatusOr<bool> MakesCopies(const JobConfig& config, int64_t available) {
  if (!config.saves_between_steps()) return false;
  if (config.checkpoint_asynchronous.has_value()) return *config.checkpoint_asynchronous;
  int64_t left = available;
  if (!config.on_gpu) {
    ASSIGN_OR_RETURN(const std::vector<RankArenas> ranks, ArenasOf(config));
    left -= BytesOfRanks(ranks);
  }
  return CopiesOnNode(config) <= left / 2;
}

}  // namespace stretto::trainer
