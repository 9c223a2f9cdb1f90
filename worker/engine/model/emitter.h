// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shared by the emit_*.cc files: the step program under construction. Not for others.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "worker/engine/model/emit.h"

namespace stretto {

// The operation of an activation, and that of its gradient.
struct ActivationOps {
  OpKind forward, backward;
};
ActivationOps OpsOf(ActivationKind activation);  // emit.cc

// Activations of one slice that backward needs, per layer. x, x2 and the norms' statistics have the
// slice's own rows (1/tp of them with sequence parallelism), the others all of them.
struct LayerActivations {
  BufferId x, y1, stats1, qkv, context, lse;  // attention half; x: its input
  BufferId x2, y2, stats2, u, a;              // MLP half; x2: its input
};

struct SliceState {
  int index = 0;
  int64_t rows = 0;       // tokens
  int64_t first = 0;      // of its tokens within the micro-batch
  int64_t own_rows = 0;   // tokens of the residual stream on this rank
  int64_t own_first = 0;  // the first of them within the micro-batch
  BufferId tokens, targets, losses;
  std::vector<LayerActivations> layers;
  BufferId x;        // residual stream, forward
  BufferId reduced;  // what the last collective left, maybe blocked
  BufferId final_x, final_y, final_stats;
  BufferId logits, max, sums;
  BufferId d;  // gradient of the residual stream, backward
};

class Emitter {
 public:
  Emitter(const EngineSpec& spec, int tp_rank, Extent extent);

  void DeclareStep();    // emit.cc: parameters, inputs, outputs
  void EmitBegin();      // emit.cc
  void EmitForward();    // emit_forward.cc
  void EmitBackward();   // emit_backward.cc
  void EmitOptimizer();  // emit_optimizer.cc
  void StartUnit(std::string name);
  Emitted Finish();

 private:
  BufferId NewBuffer(std::string name, DType dtype, std::vector<int64_t> shape, ArenaClass arena,
                     Binding binding);
  BufferId View(BufferId id, std::string name, int64_t first, std::vector<int64_t> shape);
  // Activation of a slice.
  BufferId Activation(const SliceState& slice, absl::string_view name, int layer,
                      std::vector<int64_t> shape, DType dtype);
  // The same in the compute type, [all rows of the slice, columns].
  BufferId Rows(const SliceState& slice, absl::string_view name, int layer, int64_t columns);
  // [own rows, hidden]
  BufferId Own(const SliceState& slice, absl::string_view name, int layer);
  void Add(OpKind kind, const Tag& tag, std::vector<BufferId> in, std::vector<BufferId> out,
           std::vector<int64_t> attributes = {});
  Tag At(const SliceState& slice, absl::string_view name, int layer, Phase phase) const;

  // Collectives; nothing when there is one rank.
  void AllReduce(const Tag& tag, BufferId buffer, bool travels_as_activation);
  // All rows from own rows: an all-gather with sequence parallelism, else `own` itself.
  BufferId Gather(const SliceState& slice, const Tag& tag, BufferId own, absl::string_view name);
  // A product whose partial sums the ranks add: column pieces, each reduced on its own. Forward
  // (kGemm): x * w^T, pieces of w's rows. Backward (kGemmDgrad): dy * w, pieces of w's columns.
  BufferId ReducedProduct(OpKind kind, const SliceState& slice, const Tag& tag, BufferId x,
                          BufferId weight, absl::string_view name);
  BufferId Reduce(const SliceState& slice, const Tag& tag, BufferId partial,
                  absl::string_view name);

  void DeclareParameters();
  void DeclareTraining(const Parameter& parameter, BufferId weight, int64_t* replicated);
  void DeclareSlices();
  BufferId Norm(const SliceState& slice, absl::string_view name, int layer, BufferId x, int w,
                int b, BufferId* stats);
  BufferId Residual(const SliceState& slice, absl::string_view name, absl::string_view out,
                    int layer, int bias, int place);
  // What the kind of positions asks for: a row added to each token's, or queries and keys turned.
  void AddPositions(const SliceState& slice, const Tag& tag);
  void AddPositionGrad(const SliceState& slice, const Tag& tag, BufferId d);
  void TurnHeads(const Tag& tag, BufferId qkv, bool inverse);
  // Columns of the first MLP product: both halves of a gated one.
  int64_t UpColumns() const { return IsGated(features_.activation) ? 2 * ffn_ : ffn_; }
  void ForwardEmbedding(SliceState& slice);
  void ForwardAttention(SliceState& slice, int layer);
  void ForwardMlp(SliceState& slice, int layer);
  void ForwardDense(SliceState& slice, int layer);
  void ForwardHead(SliceState& slice);
  void BackwardHead(SliceState& slice);
  void BackwardMlp(SliceState& slice, int layer);
  // d: the gradient of the MLP's output, all rows; `own`: this rank's rows of it.
  void BackwardDense(SliceState& slice, int layer, BufferId own, BufferId d);
  void BackwardAttention(SliceState& slice, int layer);
  void BackwardEmbedding(SliceState& slice);
  // The norm in front of a half-block: gradient through the branch added to the residual stream's.
  void BackwardNorm(SliceState& slice, absl::string_view name, int layer, BufferId x,
                    BufferId stats, int w, int b);
  // The gradient of a branch's output from that of the residual stream: dropout, own rows.
  BufferId BranchGrad(const SliceState& slice, absl::string_view name, int layer, int place);
  // Gradients of a linear layer's weight and bias (-1: none).
  void Wgrad(const Tag& tag, BufferId dy, BufferId x, int w);
  void BiasGrad(const Tag& tag, BufferId dy, int b);

  bool SequenceParallel() const { return spec_.schedule.sequence_parallel && spec_.tp_size > 1; }
  std::vector<int64_t> VocabAttributes() const;
  std::vector<int64_t> AttentionAttributes(const SliceState& slice, int layer) const;
  std::vector<int64_t> RotaryAttributes(bool inverse) const;
  std::vector<int64_t> NormAttributes() const;
  // Dropout of a place: rows from `first` on. Places: 0 attention, 1 its branch, 2 the MLP's.
  std::vector<int64_t> DropAttributes(int layer, int place, int64_t first) const;
  BufferId Scratch(const SliceState& slice, absl::string_view name, int layer);
  std::string BufferName(BufferId id) const { return step_.buffers[id].name; }

  BufferId W(int parameter) const { return ids_.weight[parameter]; }
  BufferId G(int parameter) const { return ids_.gradient[parameter]; }

  const EngineSpec& spec_;
  const ModelSpec& model_;
  const Architecture& features_;
  const int tp_rank_;
  const Extent extent_;
  const int64_t hidden_, ffn_, vocab_;  // ffn and vocab: of this rank
  const AttentionShape attention_;
  const std::vector<Parameter> parameters_;
  const ModelParameters index_;
  const int64_t drop_threshold_;
  StepProgram step_;
  StepBuffers ids_;
  BufferId replicated_gradients_;  // with sequence parallelism: the bucket that ranks add up
  std::vector<SliceState> slices_;
  std::map<std::pair<BufferId, int>, BufferId> weight_rows_;  // (weight, piece): its view
};

}  // namespace stretto
