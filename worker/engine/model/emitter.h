#pragma once
// Shared by the emit_*.cc files: the step program under construction. Not for others.

#include <string>
#include <vector>

#include "kernels/ops.h"
#include "worker/engine/model/emit.h"

namespace stretto {

// Activations of one slice that backward needs, per layer.
struct LayerActivations {
  int x, y1, stats1, qkv, context, lse;  // attention half: x is its input
  int x2, y2, stats2, u, a;              // MLP half: x2 is its input
};

struct SliceState {
  int index = 0;
  int64_t rows = 0;  // tokens
  int tokens = -1, targets = -1, losses = -1;
  std::vector<LayerActivations> layers;
  int x = -1;        // residual stream, forward
  int partial = -1;  // last collective's buffer
  int final_x = -1, final_y = -1, final_stats = -1;
  int logits = -1, max = -1, sums = -1;
  int d = -1;  // gradient of the residual stream, backward
};

class Emitter {
 public:
  Emitter(const EngineSpec& spec, int tp_rank);

  void DeclareStep();    // emit.cc: parameters, inputs, outputs
  void EmitBegin();      // emit.cc
  void EmitForward();    // emit_forward.cc
  void EmitBackward();   // emit_backward.cc
  void EmitOptimizer();  // emit_optimizer.cc
  Emitted Finish();

 private:
  int NewBuffer(std::string name, DType dtype, std::vector<int64_t> shape, ArenaClass arena,
                Binding binding);
  int View(int id, std::string name, int64_t first, std::vector<int64_t> shape);
  // Activation of a slice: [rows, columns].
  int Activation(const SliceState& slice, absl::string_view name, int layer, int64_t columns,
                 DType dtype);
  void StartUnit(std::string name);
  void Add(OpKind kind, const Tag& tag, std::vector<int> in, std::vector<int> out,
           std::vector<int64_t> attributes = {});
  // Nothing when there is one rank.
  void AllReduce(const Tag& tag, int buffer, OpKind kind = OpKind::kAllReduce);
  Tag At(const SliceState& slice, absl::string_view name, int layer, Phase phase) const;

  void DeclareSlices();
  void ForwardEmbedding(SliceState& slice);
  void ForwardAttention(SliceState& slice, int layer);
  void ForwardMlp(SliceState& slice, int layer);
  void ForwardHead(SliceState& slice);
  void BackwardHead(SliceState& slice);
  void BackwardMlp(SliceState& slice, int layer);
  void BackwardAttention(SliceState& slice, int layer);
  void BackwardEmbedding(SliceState& slice);
  // The norm in front of a half-block: gradient through the branch added to the residual stream's.
  void BackwardNorm(SliceState& slice, absl::string_view name, int layer, int x, int stats, int w,
                    int b);
  std::vector<int64_t> AttentionAttributes() const;
  std::vector<int64_t> VocabAttributes() const;

  int W(int parameter) const { return ids_.weight[static_cast<size_t>(parameter)]; }
  int G(int parameter) const { return ids_.gradient[static_cast<size_t>(parameter)]; }

  const EngineSpec& spec_;
  const ModelSpec& model_;
  const int tp_rank_;
  const int64_t hidden_, heads_, ffn_, vocab_;  // heads, ffn and vocab: of this rank
  const std::vector<Parameter> parameters_;
  StepProgram step_;
  StepBuffers ids_;
  std::vector<SliceState> slices_;
};

}  // namespace stretto
