// SPDX-License-Identifier: Apache-2.0

// Makes the executor of a plan and finds the buffers of parameters, optimizer state, inputs and
// outputs in it. State is set in f32 and then rounded to the weights in the compute type. The
// engine of an evaluation borrows the arenas of weights and activations of the training engine.

#include "worker/trainer/rank_engine.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/model/buckets.h"
#include "worker/trainer/draw_weights.h"
#include "worker/trainer/plan/arenas.h"
#include "worker/trainer/plan/writers.h"

namespace stretto::trainer {
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

absl::StatusOr<std::unique_ptr<RankEngine>> RankEngine::CreateEvaluation(
    RankEngine& training, int64_t batches, GroupLinks links, Backend& backend, OnBegin on_begin) {
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
  const BufferId id = (*of[static_cast<size_t>(slot)])[parameter];
  return id < 0 ? id : map_.Find(id, -1);
}

absl::StatusOr<absl::Span<const float>> RankEngine::Held(size_t parameter, Slot slot) {
  const BufferId state = State(slot, parameter);
  if (state < 0) return absl::Span<const float>();
  ASSIGN_OR_RETURN(const TensorView view, executor_->Read(state));
  return absl::MakeConstSpan(view.as<float>(), view.count());
}

absl::Status RankEngine::SetState(Fill fill) {
  return SetState(fill, [](const Parameter&, Slot) { return std::string(); });
}

absl::Status RankEngine::SetState(Fill fill, const PlaceOf& place_of) {
  return SetSlots(kSlots, fill, place_of);
}

absl::Status RankEngine::SetSlots(absl::Span<const Slot> slots, Fill fill,
                                  const PlaceOf& place_of) {
  struct Placed {
    std::string place;
    Parameter box;
    int64_t first;  // its first element in the rank's part of the tensor
  };
  struct Tensor {
    std::vector<Placed> boxes;
    size_t parameter;
    Slot slot;
  };
  const auto by_place = [](const Placed& a, const Placed& b) { return a.place < b.place; };
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const std::vector<Parameter> boxes = BoxesOf(parameters_[i], plan_.buffers.updated[i]);
    for (Slot slot : slots) {
      if (boxes.empty()) continue;
      Tensor& tensor = tensors.emplace_back(Tensor{{}, i, slot});
      int64_t first = 0;
      for (const Parameter& box : boxes) {
        tensor.boxes.push_back({place_of(box, slot), box, first});
        first += box.count();
      }
      std::stable_sort(tensor.boxes.begin(), tensor.boxes.end(), by_place);
    }
  }
  std::stable_sort(tensors.begin(), tensors.end(), [&](const Tensor& a, const Tensor& b) {
    return by_place(a.boxes.front(), b.boxes.front());
  });
  for (const Tensor& tensor : tensors) {
    const auto fill_boxes = [&](TensorView state) -> absl::Status {
      for (const Placed& placed : tensor.boxes) {
        RETURN_IF_ERROR(fill(placed.box, tensor.slot, state.as<float>() + placed.first));
      }
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(WriteState(tensor.slot, tensor.parameter, fill_boxes));
  }
  rounded_ = {};
  return absl::OkStatus();
}

// The master is rounded while the host has it: on a device, reading it again copies all weights.
absl::Status RankEngine::WriteState(Slot slot, size_t parameter, Executor::Fill fill) {
  // In f32 master and weight are one buffer.
  const bool rounds = slot == Slot::kMaster && spec_.dtype == DType::kBF16;
  RETURN_IF_ERROR(executor_->Write(State(slot, parameter), [&](TensorView state) -> absl::Status {
    RETURN_IF_ERROR(fill(state));
    if (!rounds) return absl::OkStatus();
    const auto count = static_cast<size_t>(state.count());
    if (rounded_.size() < count) rounded_.resize(count);
    RoundWeights({state.as<const float>(), count}, AllCores(), rounded_.data());
    return absl::OkStatus();
  }));
  if (!rounds) return absl::OkStatus();
  const BufferId weight = map_.Find(plan_.buffers.weight_part[parameter], -1);
  return executor_->Write(weight, [&](TensorView view) {
    STRETTO_CHECK(static_cast<size_t>(view.count()) <= rounded_.size());
    std::memcpy(view.data, rounded_.data(), static_cast<size_t>(view.bytes()));
    return absl::OkStatus();
  });
}

absl::Status RankEngine::Initialise(uint64_t seed) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    for (Slot slot : {Slot::kMoment1, Slot::kMoment2}) {
      const BufferId moment = State(slot, i);
      if (moment >= 0) RETURN_IF_ERROR(executor_->Clear(moment));
    }
  }
  const auto draw = [seed](const Parameter& box, Slot, float* values) {
    DrawWeights(box, seed, AllCores(), values);
    return absl::OkStatus();
  };
  return SetSlots({Slot::kMaster}, draw, [](const Parameter&, Slot) { return std::string(); });
}

absl::Status RankEngine::CopyStateFrom(RankEngine& other) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    for (Slot slot : kSlots) {
      if (State(slot, i) < 0) continue;
      ASSIGN_OR_RETURN(const absl::Span<const float> from, other.Held(i, slot));
      RETURN_IF_ERROR(WriteState(slot, i, [&](TensorView state) {
        std::copy(from.begin(), from.end(), state.as<float>());
        return absl::OkStatus();
      }));
    }
  }
  rounded_ = {};
  return absl::OkStatus();
}

void RankEngine::AppendState(size_t parameter, std::vector<ShardTensor>* tensors) {
  const Parameter& shard = parameters_[parameter];
  for (Slot slot : kSlots) {
    int64_t first = 0;
    for (const Parameter& box : BoxesOf(shard, plan_.buffers.updated[parameter])) {
      const std::string name = NameOfState(box, slot);
      const auto fetch = [this, parameter, slot, first]() -> absl::StatusOr<const void*> {
        ASSIGN_OR_RETURN(const absl::Span<const float> held, Held(parameter, slot));
        return held.data() + first;
      };
      // A file may have several boxes of a tensor.
      const bool whole = box.extents == shard.extents;
      tensors->push_back(
          {.name = name,
           .dtype = "F32",
           .shape = box.shape,
           .starts = box.starts,
           .extents = box.extents,
           .data = TensorData(fetch),
           .key = whole ? "" : absl::StrCat(name, "[", absl::StrJoin(box.starts, ","), "]")});
      first += box.count();
    }
  }
}

std::vector<ShardTensor> RankEngine::StateTensors() {
  std::vector<ShardTensor> tensors;
  for (size_t i = 0; i < parameters_.size(); ++i) AppendState(i, &tensors);
  return tensors;
}

std::vector<ShardTensor> RankEngine::OwnedStateTensors() {
  const Writers writers(spec_);
  std::vector<ShardTensor> owned;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (writers.Writes(rank_, parameters_[i].index)) AppendState(i, &owned);
  }
  return owned;
}

std::vector<double> RankEngine::LossSums() {
  const int64_t tokens = int64_t{spec_.micro_batch_size} * spec_.model.sequence_length;
  const int shares = SharesOf(spec_, HeadStageOf(spec_));
  std::vector<double> sums;
  if (plan_.buffers.losses < 0) return std::vector<double>(spec_.micro_batches * shares);
  for (int mb = 0; mb < spec_.micro_batches; ++mb) {
    const float* losses = Host<float>(plan_.buffers.losses, mb);
    for (int share = 0; share < shares; ++share, losses += tokens)
      sums.push_back(std::accumulate(losses, losses + tokens, 0.0));
  }
  return sums;
}

double RankEngine::MeanLoss() {
  const int64_t sequences = int64_t{SequencesOf(spec_, HeadStageOf(spec_))} * spec_.micro_batches;
  const std::vector<double> sums = LossSums();
  return std::accumulate(sums.begin(), sums.end(), 0.0) /
         static_cast<double>(sequences * spec_.model.sequence_length);
}

}  // namespace stretto::trainer
