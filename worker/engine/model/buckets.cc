// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/model/buckets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/engine/layout/layout.h"

namespace stretto {
namespace {

// Parts begin at a line of cache, in any type.
constexpr int64_t kPartMultiple = 32;

std::string NameOfBucket(const EngineSpec& spec, int stage, const Parameter& parameter) {
  if (spec.schedule.sequence_parallel && TpSizeOf(spec, stage) > 1 && !parameter.sharded())
    return kReplicatedBucket;
  // The gradients of half a layer become final at about the same time and are large enough to fill
  // a link. Whole layers would take twice as long where nothing hides them: the sum of the lowest
  // bucket, and with ZeRO its gathering.
  if (ReplicasOf(spec, stage) > 1 && parameter.layer >= 0) {
    return absl::StrCat("layers.", parameter.layer, parameter.second_half ? ".mlp" : ".attention");
  }
  return parameter.name;
}

}  // namespace

int64_t Bucket::part_count() const {
  if (parts == 1) return count;
  const int64_t unit = parts * kPartMultiple;
  return (count + unit - 1) / unit * kPartMultiple;
}

Buckets::Buckets(const EngineSpec& spec, int stage, const std::vector<Parameter>& parameters)
    : shared_(spec.zero > 0) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::string name = NameOfBucket(spec, stage, parameters[i]);
    auto bucket = std::find_if(buckets_.begin(), buckets_.end(),
                               [&](const Bucket& known) { return known.name == name; });
    if (bucket == buckets_.end()) {
      // Which replicated parameters a rank has depends on its stage, so their bucket is not dealt.
      // They are few.
      const int parts = name == kReplicatedBucket ? 1 : ReplicasOf(spec, stage);
      bucket = buckets_.insert(bucket, {.name = std::move(name), .parameters = {}, .parts = parts});
    }
    const int64_t count = parameters[i].count();
    places_.push_back({.bucket = static_cast<size_t>(bucket - buckets_.begin()),
                       .first = bucket->count,
                       .count = count});
    bucket->parameters.push_back(i);
    bucket->count += count;
  }
}

std::vector<Piece> Buckets::PiecesOf(size_t parameter) const {
  const Place& place = places_[parameter];
  const int64_t size = Of(parameter).part_count();
  std::vector<Piece> pieces;
  for (int64_t begin = place.first; begin < place.first + place.count;) {
    const int64_t part = begin / size, end = std::min(place.first + place.count, (part + 1) * size);
    pieces.push_back({.part = static_cast<int>(part),
                      .range = {.begin = begin - place.first, .end = end - place.first}});
    begin = end;
  }
  return pieces;
}

ElementRange Buckets::UpdatedBy(int replica, size_t parameter) const {
  if (!shared_ || Of(parameter).parts == 1) return {.begin = 0, .end = places_[parameter].count};
  for (const Piece& piece : PiecesOf(parameter)) {
    if (piece.part == replica) return piece.range;
  }
  return {};
}

AllHolders HoldersOf(const EngineSpec& spec) {
  AllHolders of_all(ParametersOf(spec.model, 1, 0).size());
  for (int stage = 0; stage < spec.pp_size; ++stage) {
    const int tp_size = TpSizeOf(spec, stage), replicas = ReplicasOf(spec, stage);
    const std::vector<Parameter> parameters = ParametersOf(spec, RankAt(spec, {.stage = stage}));
    const Buckets buckets(spec, stage, parameters);
    const bool shared_alike = spec.zero == 0 || replicas == ReplicasOf(spec, 0);
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].copy && (tp_size != TpSizeOf(spec, 0) || !shared_alike)) continue;
      const bool dealt = spec.zero > 0 && buckets.Of(i).parts > 1, whole = !parameters[i].sharded();
      std::vector<Holders>& all = of_all[parameters[i].index];
      size_t next = 0;  // two stages that have a parameter have the same list of its holders
      // The loops run once for each group of ranks that hold the same.
      for (int shard = 0; shard < (whole ? 1 : tp_size); ++shard) {
        for (int part = 0; part < (dealt ? replicas : 1); ++part) {
          const ElementRange range = buckets.UpdatedBy(part, i);
          if (range.count() == 0) continue;
          if (next == all.size()) all.push_back({range, {}});
          std::vector<Rank>& ranks = all[next++].ranks;
          for (int replica = dealt ? part : 0; replica < (dealt ? part + 1 : replicas); ++replica) {
            for (int tp = shard; tp < (whole ? tp_size : shard + 1); ++tp) {
              ranks.push_back(
                  RankAt(spec, {.stage = stage, .replica = replica, .tp_rank = GroupRank::Of(tp)}));
            }
          }
        }
      }
    }
  }
  return of_all;
}

}  // namespace stretto
