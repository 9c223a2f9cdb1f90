// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step program under construction, shared by the emit_*.cc files only.

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ops.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/layout/transfers.h"
#include "worker/engine/model/buckets.h"
#include "worker/engine/model/emit.h"
#include "worker/engine/reshard/operations.h"

namespace stretto {

// The operations that compute an activation function and its gradient.
struct ActivationOps {
  OpKind forward, backward;
};
ActivationOps OpsOf(ActivationKind activation);  // emit.cc

// The activations of one slice that backward needs, per layer. `rows` are the slice's tokens, `own`
// the rows of the residual stream that this rank holds (SliceState::own_rows). The types are the
// compute type, and f32 for stats and lse. stats are [own, 2] for a layer norm and [own] for an RMS
// norm. heads and ffn are this rank's.
struct LayerActivations {
  BufferId x;        // [own, hidden], input of the attention half
  BufferId y1;       // [rows, hidden], output of its norm
  BufferId stats1;   // of that norm
  BufferId qkv;      // [rows, qkv_columns]
  BufferId context;  // [rows, heads * head_dim]
  BufferId lse;      // [sequences * heads, sequence_length]
  BufferId x2;       // [own, hidden], input of the MLP half
  BufferId y2;       // [rows, hidden], output of its norm
  BufferId stats2;   // of that norm
  BufferId u;        // [rows, ffn], or [rows, 2 * ffn] when gated
  BufferId a;        // [rows, ffn]
};

struct SliceState {
  int index = 0;
  int64_t rows = 0;       // tokens
  int64_t first = 0;      // the first of its tokens within the micro-batch
  int64_t own_rows = 0;   // tokens of the residual stream on this rank
  int64_t own_first = 0;  // the first of them within the micro-batch
  BufferId tokens, targets, documents, losses;
  std::vector<LayerActivations> layers;
  BufferId x;  // [own_rows, hidden], the residual stream in forward
  // [own_rows, hidden], the result of the last collective. With splits it is in column pieces,
  // [splits, own_rows, hidden / splits].
  BufferId reduced;
  BufferId final_x;      // [own_rows, hidden]
  BufferId final_y;      // [rows, hidden]
  BufferId final_stats;  // as LayerActivations::stats1
  BufferId logits;       // [rows, vocab of this rank]; their gradient in backward
  BufferId max, sums;    // f32 [rows, 1] and [rows, 2]
  BufferId d;            // [own_rows, hidden], gradient of the residual stream in backward
};

class Emitter {
 public:
  Emitter(const EngineSpec& spec, Rank rank, Extent extent);

  void DeclareStep();    // emit.cc: parameters, inputs, outputs
  void EmitBegin();      // emit.cc
  void EmitForward();    // emit_forward.cc
  void EmitBackward();   // emit_backward.cc
  void EmitOptimizer();  // emit_optimizer.cc
  void StartUnit(std::string name);
  Emitted Finish();

 private:
  BufferId NewBuffer(std::string name, DType dtype, std::vector<int64_t> shape, ArenaClass arena,
                     int slots = 1);
  BufferId View(BufferId id, std::string name, int64_t first, std::vector<int64_t> shape);
  // Returns a range of a tensor's elements: the tensor if that is all of them, -1 if it is empty.
  BufferId Elements(BufferId id, ElementRange range);
  // Declares an activation of a slice.
  BufferId Activation(const SliceState& slice, absl::string_view name, int layer,
                      std::vector<int64_t> shape, DType dtype);
  // Declares an activation of the compute type, [rows, columns].
  BufferId Rows(const SliceState& slice, absl::string_view name, int layer, int64_t columns);
  // Declares an activation of the residual stream, [own_rows, hidden].
  BufferId Own(const SliceState& slice, absl::string_view name, int layer);
  void Add(OpKind kind, const Tag& tag, BufferList in, BufferList out,
           std::vector<int64_t> attributes = {});
  Tag At(const SliceState& slice, absl::string_view name, int layer, Phase phase) const;

  bool Embeds() const { return chunks_.front().embeds; }
  bool Predicts() const { return chunks_.back().predicts; }
  // Whether both ends of a tied model are on this stage, which is not the only one. Contributions
  // of the head and of the embedding then come in no order of micro-batches, so that each end adds
  // up its own, as on two stages.
  bool TiedEndsMeet() const {
    return model_.head_is_tied() && Embeds() && Predicts() && spec_.pp_size > 1;
  }

  // Add what crosses a boundary between chunks (emit_transfers.cc): the residual stream in front of
  // a layer, forward, or its gradient, backward. Between two chunks of this stage nothing does.
  Boundary BoundaryTo(bool next, Phase phase) const;
  void Send(const SliceState& slice, int layer, Phase phase, BufferId x);
  BufferId Receive(const SliceState& slice, int layer, Phase phase);
  // x: the rows of the slice that this rank holds.
  void AddTransfers(const SliceState& slice, const Boundary& boundary, const Tag& tag, BufferId x);

  // Adds a collective. f32 operands travel as `wire`.
  void AddCollective(OpKind kind, const Tag& tag, BufferId in, BufferId out, DType wire,
                     GroupId group = kTpGroup);
  // The collectives below emit nothing when a replica has one rank.
  void AllReduce(const Tag& tag, BufferId buffer, bool travels_as_activation);
  // Returns all rows of `own`: an all-gather with sequence parallelism, otherwise `own` itself.
  BufferId Gather(const SliceState& slice, const Tag& tag, BufferId own, absl::string_view name);
  // Emits a product whose partial sums are added over the ranks, in column pieces that are each
  // reduced on their own. Forward (kGemm): x * w^T, cut by the rows of w. Backward (kGemmDgrad):
  // x * w, cut by the columns of w. Returns the sum, of the shape of SliceState::reduced.
  BufferId ReducedProduct(OpKind kind, const SliceState& slice, const Tag& tag, BufferId x,
                          BufferId weight, absl::string_view name);
  // Adds `partial`, [rows, hidden], over the ranks: an all-reduce in place, or a reduce-scatter to
  // [own_rows, hidden] with sequence parallelism.
  BufferId Reduce(const SliceState& slice, const Tag& tag, BufferId partial,
                  absl::string_view name);

  // Whether replicas share the updates of a bucket: each adds up and updates a part of it.
  bool Shares(const Bucket& bucket) const { return spec_.zero > 0 && bucket.parts > 1; }
  void DeclareParameters();
  // Declares the memory of a bucket's gradients or weights, and returns it. Returns -1 where each
  // parameter has memory of its own: the only one of a bucket, and weights that are not shared.
  BufferId DeclareBucket(const Bucket& bucket, absl::string_view suffix, DType dtype,
                         ArenaClass arena);
  // Declares a parameter's gradient or weight, in the memory of its bucket or in its own.
  BufferId DeclareTensor(size_t parameter, absl::string_view suffix, DType dtype, ArenaClass arena);
  void DeclareTraining(size_t parameter);
  BufferId GradientsOf(size_t bucket) const;
  // Returns this replica's part of the memory of a shared bucket.
  BufferId OwnPart(const Bucket& bucket, BufferId whole);
  // Emits the collectives that bring the parts of weights that other replicas have updated.
  void GatherWeights();
  // Emit the sums of gradients: over the ranks of a replica of a stage, over the two stages that
  // have a tied embedding, and over the replicas.
  void ReduceReplicated();
  void ReduceTied();
  std::vector<size_t> InOrderOfGradients() const;
  // Whether the sums over stages of a tied embedding are sums over their replicas, too.
  bool TiedSumsReplicas(const Bucket& bucket) const;
  void ReduceOverReplicas(const std::vector<size_t>& order);
  // Whether this rank's part of a gradient counts in the norm: each part of the model counts once.
  bool Counts(const Parameter& parameter) const;
  std::vector<int64_t> FirstPieces() const;
  // Returns the sum of squares of the gradients of the whole model.
  BufferId NormTotal(const std::vector<size_t>& order, const Tag& norm);
  void DeclareSlices();
  // Returns the output of a norm, [rows, hidden], and declares its statistics in `stats`.
  BufferId Norm(const SliceState& slice, absl::string_view name, int layer, BufferId x, int w,
                int b, BufferId* stats);
  // Adds the bias and the residual to `reduced`, after dropout. Returns [own_rows, hidden].
  BufferId Residual(const SliceState& slice, absl::string_view name, absl::string_view out,
                    int layer, int bias, int place);
  // Emit what the kind of positions requires: a row added to each token's, or a rotation of queries
  // and keys.
  void AddPositions(const SliceState& slice, const Tag& tag);
  void AddPositionGrad(const SliceState& slice, const Tag& tag, BufferId d);
  void TurnHeads(const Tag& tag, BufferId qkv, bool inverse);
  // The output columns of the first MLP product; a gated one has both halves.
  int64_t UpColumns() const { return IsGated(features_.activation) ? 2 * ffn_ : ffn_; }
  void ForwardBegin(SliceState& slice);
  void ForwardEnd(SliceState& slice);
  void BackwardBegin(SliceState& slice);
  void BackwardEnd(SliceState& slice);
  void ForwardEmbedding(SliceState& slice);
  void ForwardAttention(SliceState& slice, int layer);
  void ForwardMlp(SliceState& slice, int layer);
  void ForwardDense(SliceState& slice, int layer);
  void ForwardHead(SliceState& slice);
  void BackwardHead(SliceState& slice);
  void BackwardMlp(SliceState& slice, int layer);
  // d: the gradient of the MLP's output, [rows, hidden]; own: the rows of it that this rank holds.
  void BackwardDense(SliceState& slice, int layer, BufferId own, BufferId d);
  void BackwardAttention(SliceState& slice, int layer);
  void BackwardEmbedding(SliceState& slice);
  // The norm before a half-block: the gradient through the branch is added to that of the residual
  // stream.
  void BackwardNorm(SliceState& slice, absl::string_view name, int layer, BufferId x,
                    BufferId stats, int w, int b);
  // Returns the gradient of a branch's output, [own_rows, hidden], from that of the residual
  // stream.
  BufferId BranchGrad(const SliceState& slice, absl::string_view name, int layer, int place);
  // Emit the gradients of a linear layer's weight and bias (b is -1 when it has none).
  void Wgrad(const Tag& tag, BufferId dy, BufferId x, BufferId gradient);
  void BiasGrad(const Tag& tag, BufferId dy, int b);

  bool SequenceParallel() const { return spec_.schedule.sequence_parallel && tp_size_ > 1; }
  std::vector<int64_t> VocabAttributes() const;
  std::vector<int64_t> AttentionAttributes(const SliceState& slice, int layer) const;
  std::vector<int64_t> AttentionGradAttributes(const SliceState& slice, int layer) const;
  std::vector<int64_t> RotaryAttributes(bool inverse) const;
  std::vector<int64_t> NormAttributes() const;
  // Returns the inputs of attention behind `in`: keys and, if documents are apart, these.
  BufferList WithDocuments(const SliceState& slice, BufferList in) const;
  // Attributes of dropout for the rows from `first` on. Places: 0 attention, 1 the attention
  // branch, 2 the MLP branch.
  std::vector<int64_t> DropAttributes(int layer, int place, int64_t first) const;
  // `library`: elements for a library's kernels.
  BufferId Scratch(const SliceState& slice, absl::string_view name, int layer, int64_t library = 0);
  // AttentionShape::library_scratch of gradients.
  int64_t LibraryElements() const;
  std::string BufferName(BufferId id) const { return step_.buffers[id].name; }

  BufferId W(int parameter) const { return ids_.weight[parameter]; }
  BufferId G(int parameter) const { return ids_.gradient[parameter]; }
  BufferId HeadGradient() const { return head_gradient_ >= 0 ? head_gradient_ : G(index_.head); }

  const EngineSpec& spec_;
  const ModelSpec& model_;
  const Architecture& features_;
  const Place place_;
  const GroupRank tp_rank_;
  const int tp_size_;                // of the stage
  const std::vector<Chunk> chunks_;  // of the stage
  Chunk chunk_;                      // the one that is being emitted
  const Extent extent_;
  const int64_t hidden_, ffn_, vocab_;  // ffn and vocab: of this rank
  const AttentionShape attention_;
  const std::vector<Parameter> parameters_;
  const Buckets buckets_;
  const ModelParameters index_;
  const int64_t drop_threshold_;
  StepProgram step_;
  StepBuffers ids_;
  // By Buckets::all; -1 where a bucket has no memory of its own. Weights have it with ZeRO.
  std::vector<BufferId> gradient_buckets_, weight_buckets_;
  BufferId head_gradient_ = -1;  // if tied ends meet
  std::vector<SliceState> slices_;
  std::map<std::pair<BufferId, int>, BufferId> weight_rows_;  // (weight, piece): its view
};

}  // namespace stretto
