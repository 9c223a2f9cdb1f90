// SPDX-License-Identifier: Apache-2.0

// Makes the executor of a plan and finds the buffers of parameters, optimizer state, inputs and
// outputs in it. State is set in f32 and then rounded to the weights in the compute type. The
// engine of an evaluation borrows the arenas of weights and activations of the training engine.

#include "worker/trainer/rank_engine.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/bf16.h"
#include "proto/base/status_macros.h"
#include "worker/engine/layout/layout.h"
#include "worker/trainer/draw_weights.h"
#include "worker/trainer/plan/arenas.h"

namespace stretto::trainer {
namespace {

constexpr Slot kSlots[] = {Slot::kMaster, Slot::kMoment1, Slot::kMoment2};

}  // namespace

std::string NameOfState(const Parameter& parameter, Slot slot) {
  constexpr const char* suffix[] = {"", ".m", ".v"};
  return absl::StrCat(parameter.name, suffix[static_cast<size_t>(slot)]);
}

RankEngine::RankEngine(const EngineSpec& spec, Rank rank, RankPlan plan)
    : spec_(spec),
      rank_(rank),
      plan_(std::move(plan)),
      map_(plan_.step),
      parameters_(ParametersOf(spec, rank)) {}

absl::StatusOr<std::unique_ptr<RankEngine>> RankEngine::Create(const EngineSpec& spec, Rank rank,
                                                               Variant variant, GroupLinks links,
                                                               Backend& backend, OnBegin on_begin) {
  ASSIGN_OR_RETURN(RankPlan plan, BuildPlan(spec, rank, variant));
  return Create(spec, rank, std::move(plan), std::move(links), backend, std::move(on_begin));
}

absl::StatusOr<std::unique_ptr<RankEngine>> RankEngine::Create(const EngineSpec& spec, Rank rank,
                                                               RankPlan plan, GroupLinks links,
                                                               Backend& backend, OnBegin on_begin) {
  auto engine = std::unique_ptr<RankEngine>(new RankEngine(spec, rank, std::move(plan)));
  RETURN_IF_ERROR(engine->MakeExecutor({}, std::move(links), backend, std::move(on_begin)));
  return engine;
}

absl::StatusOr<std::unique_ptr<RankEngine>> RankEngine::CreateEvaluation(RankEngine& training,
                                                                         int64_t batches,
                                                                         GroupLinks links,
                                                                         Backend& backend,
                                                                         OnBegin on_begin) {
  const EngineSpec spec = EvaluationOf(training.spec_, batches);
  ASSIGN_OR_RETURN(RankPlan plan, BuildPlan(spec, training.rank_, Variant::kEvaluation));
  auto engine = std::unique_ptr<RankEngine>(new RankEngine(spec, training.rank_, std::move(plan)));
  PerArena<Arena> borrowed;
  for (ArenaClass arena : {ArenaClass::kParameter, ArenaClass::kActivation})
    borrowed[arena] = training.executor_->Lend(arena);
  RETURN_IF_ERROR(
      engine->MakeExecutor(std::move(borrowed), std::move(links), backend, std::move(on_begin)));
  return engine;
}

absl::Status RankEngine::MakeExecutor(PerArena<Arena> borrowed, GroupLinks links, Backend& backend,
                                      OnBegin on_begin) {
  ASSIGN_OR_RETURN(executor_, backend.MakeExecutor({.step = plan_.step,
                                                    .program = plan_.program,
                                                    .arenas = plan_.arenas,
                                                    .borrowed = std::move(borrowed),
                                                    .links = std::move(links),
                                                    .on_begin = std::move(on_begin)}));
  return absl::OkStatus();
}

BufferId RankEngine::State(Slot slot, size_t parameter) const {
  const StepBuffers& ids = plan_.buffers;
  const std::vector<BufferId>* of[] = {&ids.master, &ids.moment1, &ids.moment2};
  return map_.Find((*of[static_cast<size_t>(slot)])[parameter], -1);
}

absl::Status RankEngine::SetState(Fill fill) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    for (Slot slot : kSlots) {
      RETURN_IF_ERROR(executor_->Write(
          State(slot, i), [&](TensorView state) { return fill(i, slot, state.as<float>()); }));
    }
  }
  return RoundWeights();
}

absl::Status RankEngine::Initialise(uint64_t seed) {
  return SetState([&](size_t i, Slot slot, float* values) {
    if (slot == Slot::kMaster) {
      DrawWeights(parameters_[i], seed, AllCores(), values);
    } else {
      std::fill_n(values, parameters_[i].count(), 0.0f);
    }
    return absl::OkStatus();
  });
}

absl::Status RankEngine::CopyStateFrom(RankEngine& other) {
  return SetState([&](size_t i, Slot slot, float* values) -> absl::Status {
    ASSIGN_OR_RETURN(const TensorView from, other.executor_->Read(other.State(slot, i)));
    std::copy_n(from.as<float>(), parameters_[i].count(), values);
    return absl::OkStatus();
  });
}

absl::Status RankEngine::RoundWeights() {
  if (spec_.dtype == DType::kF32) return absl::OkStatus();  // master and weight are one buffer
  for (size_t i = 0; i < parameters_.size(); ++i) {
    ASSIGN_OR_RETURN(const TensorView master, executor_->Read(State(Slot::kMaster, i)));
    const BufferId weight = map_.Find(plan_.buffers.weight[i], -1);
    RETURN_IF_ERROR(executor_->Write(weight, [&](TensorView rounded) {
      const float* from = master.as<float>();
      std::transform(from, from + master.count(), rounded.as<BF16>(), ToBF16);
      return absl::OkStatus();
    }));
  }
  return absl::OkStatus();
}

std::vector<ShardTensor> RankEngine::StateTensors() {
  std::vector<ShardTensor> tensors;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Parameter& p = parameters_[i];
    for (Slot slot : kSlots) {
      tensors.push_back({.name = NameOfState(p, slot),
                         .dtype = "F32",
                         .shape = p.shape,
                         .starts = p.starts,
                         .extents = p.extents,
                         .data = TensorData([this, slot, i]() -> absl::StatusOr<const void*> {
                           ASSIGN_OR_RETURN(const TensorView view, executor_->Read(State(slot, i)));
                           return view.data;
                         })});
    }
  }
  return tensors;
}

std::vector<ShardTensor> RankEngine::OwnedStateTensors() {
  const int replica = PlaceOf(spec_, rank_).replica;
  const std::vector<ShardTensor> all = StateTensors();
  std::vector<ShardTensor> owned;
  // Each parameter, with its moments, goes to the replica with least to write so far. Shards are of
  // one size on all ranks, so all of them decide alike.
  std::vector<int64_t> elements(spec_.dp_size);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].copy) continue;
    const auto least = std::min_element(elements.begin(), elements.end());
    *least += parameters_[i].count();
    if (least - elements.begin() != replica) continue;
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(i * std::size(kSlots));
    owned.insert(owned.end(), first, first + std::size(kSlots));
  }
  return owned;
}

std::vector<double> RankEngine::LossSums() {
  const int64_t tokens = int64_t{spec_.micro_batch_size} * spec_.model.sequence_length;
  std::vector<double> sums;
  if (plan_.buffers.losses < 0) return std::vector<double>(spec_.micro_batches);
  for (int mb = 0; mb < spec_.micro_batches; ++mb) {
    const float* losses = Host<float>(plan_.buffers.losses, mb);
    sums.push_back(std::accumulate(losses, losses + tokens, 0.0));
  }
  return sums;
}

double RankEngine::MeanLoss() {
  const int64_t sequences = int64_t{spec_.micro_batch_size} * spec_.micro_batches;
  const std::vector<double> sums = LossSums();
  return std::accumulate(sums.begin(), sums.end(), 0.0) /
         static_cast<double>(sequences * spec_.model.sequence_length);
}

}  // namespace stretto::trainer
