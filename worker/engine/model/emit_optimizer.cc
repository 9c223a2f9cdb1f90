// SPDX-License-Identifier: Apache-2.0

// The unit "optimizer": sums of gradients over the ranks that hold parts of them, the norm of the
// whole model's gradient, and AdamW.

#include <algorithm>
#include <iterator>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/engine/model/emitter.h"

namespace stretto {

// With sequence parallelism every rank has computed the gradients of replicated parameters from its
// own rows only, so one all-reduce adds them up.
void Emitter::ReduceReplicated() {
  for (size_t b = 0; b < buckets_.all().size(); ++b) {
    const Bucket& bucket = buckets_.all()[b];
    if (bucket.name != kReplicatedBucket) continue;
    AllReduce({.name = bucket.name, .phase = Phase::kOptimizer}, GradientsOf(b), false);
  }
}

// Returns the parameters in the order in which their gradients become final: backward's, and behind
// it those that a replica's ranks must have added up first.
std::vector<size_t> Emitter::InOrderOfGradients() const {
  std::vector<size_t> order;
  for (bool replicated : {false, true}) {
    for (size_t i = parameters_.size(); i-- > 0;) {
      if ((buckets_.Of(i).name == kReplicatedBucket) == replicated) order.push_back(i);
    }
  }
  return order;
}

// The stages of the embeddings and of the head have each added up their part of the gradient of a
// tied embedding. Both need the whole, because both update their copy. If their TP sizes differ, a
// rank shares rows with several ranks of the other. If their numbers of replicas differ, replicas
// have no counterparts, and one sum adds up all of both stages. If both ends are on one stage, it
// adds the two parts.
void Emitter::ReduceTied() {
  if (head_gradient_ >= 0) {  // row by row, as positions are added up
    const int embedding = index_.token_embedding;
    Add(OpKind::kPositionGrad, {.name = parameters_[embedding].name, .phase = Phase::kOptimizer},
        {head_gradient_, G(embedding)}, {G(embedding)});
  }
  for (GroupId group : step_.groups.ids()) {
    if (!absl::StartsWith(step_.groups[group].name, kTiedGroupName)) continue;
    const int embedding = index_.token_embedding;
    // The rows that all ranks have, of the embedding and then of this rank's shard.
    int64_t begin = 0, end = model_.padded_vocab();
    for (Rank rank : step_.groups[group].ranks) {
      const Place at = PlaceOf(spec_, rank);
      const int64_t rows = model_.padded_vocab() / TpSizeOf(spec_, at.stage);
      begin = std::max(begin, rows * at.tp_rank.value());
      end = std::min(end, rows * (at.tp_rank.value() + 1));
    }
    const int64_t first = vocab_ * tp_rank_.value();
    const BufferId common = Elements(
        G(embedding), {.begin = (begin - first) * hidden_, .end = (end - first) * hidden_});
    AddCollective(OpKind::kAllReduce,
                  {.name = parameters_[embedding].name, .phase = Phase::kOptimizer}, common, common,
                  DType::kF32, group);
  }
}

bool Emitter::TiedSumsReplicas(const Bucket& bucket) const {
  const int embedding = index_.token_embedding;
  return model_.head_is_tied() && embedding >= 0 &&
         bucket.parameters.front() == static_cast<size_t>(embedding) && TiedEndsDiffer(spec_);
}

// Each replica has computed the gradients of its own sequences. A bucket is summed as soon as its
// last contribution is there, because the operation waits for nothing else, so sums run under the
// rest of backward. A replica that updates a part needs the sum of that part alone.
void Emitter::ReduceOverReplicas(const std::vector<size_t>& order) {
  if (ReplicasOf(spec_, place_.stage) == 1) return;
  std::set<size_t> reduced;
  for (size_t i : order) {
    const size_t b = buckets_.NumberOf(i);
    if (!reduced.insert(b).second) continue;
    const Bucket& bucket = buckets_.all()[b];
    if (TiedSumsReplicas(bucket)) continue;
    const BufferId all = GradientsOf(b);
    const bool shares = Shares(bucket);
    AddCollective(shares ? OpKind::kReduceScatter : OpKind::kAllReduce,
                  {.name = bucket.name, .phase = Phase::kOptimizer}, all,
                  shares ? OwnPart(bucket, all) : all, DType::kF32,
                  FindGroup(step_.groups, kDpGroupName));
  }
}

// Sharded parameters count on every rank of a replica of a stage and replicated ones on the first.
bool Emitter::Counts(const Parameter& parameter) const {
  return !parameter.copy && (parameter.sharded() || tp_rank_ == 0);
}

// Returns the number of the first piece of each parameter of the model, and behind them that of all
// pieces. The shards of a parameter, and so its pieces, follow from the stage that counts it.
std::vector<int64_t> Emitter::FirstPieces() const {
  std::vector<int64_t> pieces;  // of each parameter
  const auto mesh_of = [&](int stage) {
    return std::pair(TpSizeOf(spec_, stage), ReplicasOf(spec_, stage));
  };
  std::set<std::pair<int, int>> meshes;
  for (int stage = 0; stage < spec_.pp_size; ++stage) {
    if (!meshes.insert(mesh_of(stage)).second) continue;
    const std::vector<Parameter> all = ParametersOf(model_, TpSizeOf(spec_, stage), 0);
    const Buckets buckets(spec_, stage, all);
    pieces.resize(all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      if (mesh_of(OwnerOf(spec_, all[i])) == mesh_of(stage))
        pieces[i] = std::ssize(buckets.PiecesOf(i));
    }
  }
  std::vector<int64_t> first = {0};
  for (int64_t count : pieces) first.push_back(first.back() + count);
  return first;
}

// Every piece of a parameter (model/buckets.h) has a part of the norm. Stages, and replicas that
// update different pieces, add up their parts before the sum over all pieces: a part is then a
// number plus zeros, so the norm has the same bits for any number of stages, with and without ZeRO.
// Ranks at the same place of all stages add up their parts, and then those of a stage their sums.
// If stages differ in TP size there are no such places, and all ranks of a replica add up their
// parts. If they differ in replicas all ranks of the job do, of which the first replica of a stage
// counts what all of them have.
BufferId Emitter::NormTotal(const std::vector<size_t>& order, const Tag& norm) {
  const std::vector<int64_t> first = FirstPieces();
  const int64_t count = first.back();
  const bool equal = MeshesAreEqual(spec_), all_replicas = !ReplicasAreEqual(spec_);
  const BufferId parts = NewBuffer("norm_parts", DType::kF32, {count}, ArenaClass::kActivation);
  const BufferId total = NewBuffer("norm_total", DType::kF32, {1}, ArenaClass::kActivation);
  const auto part = [&](int64_t index, int64_t size) {
    return View(parts, absl::StrCat("norm_parts.", index), index, {size});
  };
  std::vector<bool> written(static_cast<size_t>(count));
  for (size_t i : order) {
    // The shards of a copy, and so its pieces, are others than those that count.
    if (parameters_[i].copy && !equal) continue;
    const Tag tag{.name = parameters_[i].name, .phase = Phase::kOptimizer};
    int64_t index = first[parameters_[i].index] - 1;
    for (const Piece& piece : buckets_.PiecesOf(i)) {
      ++index;
      // What every replica updates is counted by the first.
      const int counts = spec_.zero > 0 ? piece.part : all_replicas ? 0 : place_.replica;
      if (counts != place_.replica) continue;
      written[static_cast<size_t>(index)] = true;
      if (Counts(parameters_[i])) {
        Add(OpKind::kSumSquares, tag, {Elements(G(i), piece.range)}, {part(index, 1)});
      } else {
        Add(OpKind::kZero, tag, {}, {part(index, 1)});
      }
    }
  }
  for (auto run = written.begin(); run != written.end();) {  // parts of other ranks
    run = std::find(run, written.end(), false);
    const auto end = std::find(run, written.end(), true);
    if (end != run) Add(OpKind::kZero, norm, {}, {part(run - written.begin(), end - run)});
    run = end;
  }
  const auto add_up = [&](GroupId group) {
    if (group >= 0) AddCollective(OpKind::kAllReduce, norm, parts, parts, DType::kF32, group);
  };
  if (spec_.zero > 0 && !all_replicas) add_up(FindGroup(step_.groups, kDpGroupName));
  add_up(FindGroup(step_.groups, kPpGroupName));
  Add(OpKind::kSum, norm, {parts}, {total});
  if (equal) AllReduce(norm, total, false);
  return total;
}

// The sums of gradients, their norm over all shards, and AdamW. The norm counts each parameter
// once (Counts). Where communicators add in rank order, all replicas have the same sums, and so the
// same norm and the same updates; the spec's rules refuse layouts where they might not. Parameters
// come in the order of their gradients, so that what is computed of the first ones hides the last
// sums.
void Emitter::EmitOptimizer() {
  StartUnit("optimizer");
  ReduceReplicated();
  ReduceTied();
  const std::vector<size_t> order = InOrderOfGradients();
  ReduceOverReplicas(order);
  const Tag norm{.name = "grad_norm", .phase = Phase::kOptimizer};
  const auto clip = [&](BufferId total) {
    Add(OpKind::kClip, norm, {total, ids_.scalars}, {ids_.clip_state});
  };
  // Updates at once read the clip state of a norm of 0, which clips and skips nothing. The true
  // norm replaces it at the end, for the host to read.
  if (spec_.update_at_once) {
    const BufferId zero = NewBuffer("norm_zero", DType::kF32, {1}, ArenaClass::kActivation);
    Add(OpKind::kZero, norm, {}, {zero});
    clip(zero);
  }
  const BufferId total = NormTotal(order, norm);
  if (!spec_.update_at_once) clip(total);
  for (size_t i : order) {
    if (ids_.updated[i].count() == 0) continue;
    BufferList out = {ids_.master[i], ids_.moment1[i], ids_.moment2[i]};
    if (ids_.weight_part[i] != ids_.master[i]) out.push_back(ids_.weight_part[i]);
    Add(OpKind::kAdamW, {.name = parameters_[i].name, .phase = Phase::kOptimizer},
        {ids_.gradient_part[i], ids_.clip_state, ids_.scalars, ids_.master[i], ids_.moment1[i],
         ids_.moment2[i]},
        std::move(out), {parameters_[i].decay ? 1 : 0});
  }
  if (spec_.update_at_once) clip(total);
}

}  // namespace stretto
