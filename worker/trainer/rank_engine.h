// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's plan, executor and tensors, with the host's access to them: weights in and out,
// batches in, losses out.

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/bf16.h"
#include "kernels/ops.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/engine/exec/backend.h"
#include "worker/engine/exec/executor.h"
#include "worker/engine/schedule/plan.h"

namespace stretto::trainer {

// The three f32 tensors of a parameter that training changes.
enum class Slot : uint8_t { kMaster, kMoment1, kMoment2 };
inline constexpr Slot kSlots[] = {Slot::kMaster, Slot::kMoment1, Slot::kMoment2};

// Returns its name in checkpoints: "NAME", "NAME.m", "NAME.v".
std::string NameOfState(const Parameter& parameter, Slot slot);

// Not thread-safe; one per rank and variant.
class RankEngine {
 public:
  // `links` and `backend` are borrowed. Errors: those of BuildPlan and of Backend::MakeExecutor.
  static absl::StatusOr<std::unique_ptr<RankEngine>> Create(const EngineSpec& spec, Rank rank,
                                                            Variant variant, GroupLinks links,
                                                            Backend& backend, OnBegin on_begin);

  // Runs the given plan of the spec instead of building one.
  static absl::StatusOr<std::unique_ptr<RankEngine>> Create(const EngineSpec& spec, Rank rank,
                                                            RankPlan plan, GroupLinks links,
                                                            Backend& backend, OnBegin on_begin);

  // Makes an engine for forward and loss only (Variant::kEvaluation), in the weights and the
  // activation memory of `training`, between whose steps it runs. Its micro_batches() are the
  // batches of one run (EvaluationOf). Of the tensors below it has only
  // tokens, targets, documents, keys and losses. Errors: those of Create; InvalidArgument, the
  // activation memory is too small.
  static absl::StatusOr<std::unique_ptr<RankEngine>> CreateEvaluation(
      RankEngine& training, int64_t batches, GroupLinks links, Backend& backend, OnBegin on_begin);

  int micro_batches() const { return spec_.micro_batches; }
  const StepProgram& step() const { return plan_.step; }
  const Program& program() const { return plan_.program; }
  const ArenaBytes& arenas() const { return plan_.arenas; }
  Executor& executor() { return *executor_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }

  // Sets weights and moments: `fill` writes each box of a parameter that this rank holds, which is
  // its shard or, with ZeRO, a part of it, dense and row-major. Errors of this and the next two:
  // those of `fill` and of the device.
  using Fill = absl::FunctionRef<absl::Status(const Parameter& box, Slot slot, float* values)>;
  absl::Status SetState(Fill fill);
  // The same, box by box in the order of their places; boxes of one tensor stay together.
  using PlaceOf = std::function<std::string(const Parameter& box, Slot slot)>;
  absl::Status SetState(Fill fill, const PlaceOf& place_of);
  // Sets random weights from the seed, and moments to zero.
  absl::Status Initialise(uint64_t seed);
  // Copies the weights and moments of another engine of this rank.
  absl::Status CopyStateFrom(RankEngine& other);
  // Returns master weights and moments as boxes of global tensors, named by NameOfState. Their data
  // is fetched from this engine.
  std::vector<ShardTensor> StateTensors();
  // Returns those of them that this rank writes to a checkpoint: each is written by one of the
  // ranks that hold it.
  std::vector<ShardTensor> OwnedStateTensors();
  // Returns the elements of a tensor that this rank holds (model/buckets.h). Lifetime as
  // Executor::Read.
  absl::StatusOr<absl::Span<const float>> Held(size_t parameter, Slot slot);

  // Null in stages that have no embeddings, or no head.
  int32_t* tokens(int micro_batch) { return Host<int32_t>(plan_.buffers.tokens, micro_batch); }
  int32_t* targets(int micro_batch) { return Host<int32_t>(plan_.buffers.targets, micro_batch); }
  // Null without EngineSpec::document_mask.
  int32_t* documents(int micro_batch) {
    return Host<int32_t>(plan_.buffers.documents, micro_batch);
  }
  // kKeyCount words, indexed by enum Key.
  int32_t* keys(int micro_batch) { return Host<int32_t>(plan_.buffers.keys, micro_batch); }
  float* scalars() { return Host<float>(plan_.buffers.scalars, -1); }
  const float* clip_state() { return Host<float>(plan_.buffers.clip_state, -1); }
  // The whole shard; with ZeRO, only the elements that this rank updates are added up over
  // replicas. Errors and lifetime as Executor::Read.
  absl::StatusOr<TensorView> Gradient(size_t parameter) {
    return executor_->Read(map_.Find(plan_.buffers.gradient[parameter], -1));
  }
  // Returns, for each micro-batch and each share of it that a replica of the last stage has
  // (worker/engine/layout), the sum of its tokens' losses, added in their order; 0 in stages that
  // have no head.
  std::vector<double> LossSums();
  // Returns the mean over the tokens of this rank's replica; 0 in stages that have no head.
  double MeanLoss();

 private:
  RankEngine(const EngineSpec& spec, Rank rank, RankPlan plan);
  absl::Status MakeExecutor(PerArena<Arena> borrowed, GroupLinks links, Backend& backend,
                            OnBegin on_begin);
  // SetState of these slots alone, of which one is kMaster.
  absl::Status SetSlots(absl::Span<const Slot> slots, Fill fill, const PlaceOf& place_of);
  // Sets a tensor and, if it is the master, the weight that is rounded from it.
  absl::Status WriteState(Slot slot, size_t parameter, Executor::Fill fill);
  // Returns the buffer of a parameter's tensor, -1 if this rank holds none of it.
  BufferId State(Slot slot, size_t parameter) const;
  // Appends a parameter's tensors as ShardTensors.
  void AppendState(size_t parameter, std::vector<ShardTensor>* tensors);
  template <class T>
  T* Host(BufferId buffer, int micro_batch) {
    if (buffer < 0) return nullptr;
    return executor_->HostView(map_.Find(buffer, micro_batch)).as<T>();
  }

  const EngineSpec spec_;
  const Rank rank_;
  const RankPlan plan_;
  const BufferMap map_;
  const std::vector<Parameter> parameters_;
  std::unique_ptr<Executor> executor_;
  std::vector<BF16> rounded_;  // of WriteState: as large as the largest weight so far
};

}  // namespace stretto::trainer
