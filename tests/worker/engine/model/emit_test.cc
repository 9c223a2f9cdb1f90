// SPDX-License-Identifier: Apache-2.0

// The mathematics that Emit lays down: what no schedule may add to or take away.

#include "worker/engine/model/emit.h"

#include <algorithm>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/ops.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/model/parameters.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

Emitted EmittedOf(const EngineSpec& spec, Rank rank = 0) {
  absl::StatusOr<Emitted> emitted = Emit(spec, rank);
  EXPECT_TRUE(emitted.ok()) << emitted.status();
  return emitted.ok() ? *std::move(emitted) : Emitted{};
}

const std::vector<Op>& MicroBatch(const StepProgram& step) { return step.units.at(1).ops; }

const Buffer& At(const StepProgram& step, BufferId id) { return step.buffers[id]; }

// Operations of a kind in the micro-batch's unit.
std::vector<Op> OfKind(const StepProgram& step, OpKind kind) {
  std::vector<Op> found;
  for (const Op& op : MicroBatch(step)) {
    if (op.kind == kind) found.push_back(op);
  }
  return found;
}

// The forward pass needs none, and f32 and dropout are computed by our kernels.
TEST(EmitTest, GradientsOfAttentionHaveScratchForALibraryWhereItMayComputeThem) {
  EngineSpec spec = SpecOf(Domino({1, 1}, 1));
  spec.dtype = DType::kBF16;
  spec.model.dropout = 0;
  spec.model.hidden = spec.model.heads * 16;
  const auto scratch_of = [](const EngineSpec& spec, OpKind kind) {
    const StepProgram step = EmittedOf(spec).step;
    const Op op = OfKind(step, kind).front();
    return At(step, op.out.back()).count();
  };
  const int64_t own = scratch_of(spec, OpKind::kAttentionGrad);
  EXPECT_EQ(OfKind(EmittedOf(spec).step, OpKind::kAttentionGrad).front().attributes.back(), 0);
  for (const bool repeatable : {false, true}) {
    spec.library_attention =
        repeatable ? LibraryAttention::kRepeatable : LibraryAttention::kVarying;
    const Op op = OfKind(EmittedOf(spec).step, OpKind::kAttentionGrad).front();
    const AttentionShape shape{.sequence_length = spec.model.sequence_length,
                               .heads = spec.model.heads / spec.tp_size,
                               .kv_heads = spec.model.key_heads() / spec.tp_size,
                               .head_dim = 16};
    EXPECT_EQ(op.attributes.back(), LibraryScratch(shape, repeatable));
    EXPECT_EQ(scratch_of(spec, OpKind::kAttentionGrad), LibraryScratch(shape, repeatable));
    EXPECT_EQ(scratch_of(spec, OpKind::kAttention), own);
  }
  EngineSpec f32 = spec, dropped = spec, narrow = spec, documents = spec;
  f32.dtype = DType::kF32;
  dropped.model.dropout = 0.1;
  narrow.model.hidden = spec.model.heads * 4;
  documents.document_mask = true;
  for (const EngineSpec& other : {f32, dropped, narrow, documents})
    EXPECT_EQ(scratch_of(other, OpKind::kAttentionGrad), own);
}

// In each stage, and only where the job says so.
TEST(EmitTest, AttentionReadsWhereDocumentsBeginIfTheyAreMasked) {
  EngineSpec spec = SpecOf(Domino({1, 1}, 2));
  EXPECT_EQ(EmittedOf(spec).buffers.documents, -1);
  spec.document_mask = true;
  spec.pp_size = spec.model.layers;
  for (int stage = 0; stage < spec.pp_size; ++stage) {
    const Emitted emitted = EmittedOf(spec, Rank::Of(stage * spec.tp_size));
    for (OpKind kind : {OpKind::kAttention, OpKind::kAttentionGrad}) {
      const std::vector<Op> ops = OfKind(emitted.step, kind);
      ASSERT_EQ(ops.size(), 2u);
      for (const Op& op : ops) {
        const Buffer& documents = At(emitted.step, op.in.back());
        EXPECT_EQ(documents.alias, emitted.buffers.documents);
        EXPECT_EQ(documents.alias_offset, op.tag.slice * spec.model.sequence_length);
        EXPECT_EQ(documents.slots, kPerMicroBatch);
      }
    }
  }
}

TEST(EmitTest, AStepBeginsRunsItsMicroBatchesAndUpdates) {
  const StepProgram step = EmittedOf(SpecOf(Domino({1, 1}, 3))).step;
  std::vector<std::string> units;
  for (const Instance& instance : step.instances) units.push_back(step.units[instance.unit].name);
  EXPECT_THAT(units,
              ElementsAre("begin", "micro_batch", "micro_batch", "micro_batch", "optimizer"));
  EXPECT_EQ(step.lanes.size(), 1u);
}

struct Uses {
  int cleared = 0, counted = 0, applied = 0;
  std::set<int> slices;  // that add to it
};

Uses UsesOf(const StepProgram& step, BufferId gradient) {
  Uses uses;
  for (const Unit& unit : step.units) {
    for (const Op& op : unit.ops) {
      const bool written = std::count(op.out.begin(), op.out.end(), gradient) > 0;
      const bool read = std::count(op.in.begin(), op.in.end(), gradient) > 0;
      if (written && read) uses.slices.insert(op.tag.slice);
      if (written && op.kind == OpKind::kZero) ++uses.cleared;
      if (read && op.kind == OpKind::kSumSquares) ++uses.counted;
      if (read && op.kind == OpKind::kAdamW) ++uses.applied;
    }
  }
  return uses;
}

TEST(EmitTest, EveryGradientIsClearedAddedToByEverySliceCountedOnceAndApplied) {
  for (const Layout& layout : EverySchedule()) {
    const EngineSpec spec = SpecOf(layout);
    for (Rank rank : IdRange<Rank>(2)) {
      const Emitted emitted = EmittedOf(spec, rank);
      const std::vector<Parameter> parameters =
          ParametersOf(spec.model, spec.tp_size, PlaceOf(spec, rank).tp_rank);
      for (size_t i = 0; i < parameters.size(); ++i) {
        const Uses uses = UsesOf(emitted.step, emitted.buffers.gradient[i]);
        EXPECT_EQ(uses.cleared, 1) << parameters[i].name;
        EXPECT_EQ(uses.applied, 1) << parameters[i].name;
        EXPECT_EQ(uses.slices.size(), spec.schedule.slices.size()) << parameters[i].name;
        // A replicated gradient is rank 0's to count.
        EXPECT_EQ(uses.counted, parameters[i].sharded() || rank == 0 ? 1 : 0) << parameters[i].name;
      }
    }
  }
}

// Every draw belongs to one place of the model and one token, whatever the schedule: backward's and
// a recomputed one repeat the forward's.
TEST(EmitTest, DropoutDrawsAreKeyedByPlaceAndToken) {
  for (bool sequence_parallel : {false, true}) {
    Layout layout = Domino({1, 2});
    layout.dropout = 0.25;
    layout.sequence_parallel = sequence_parallel;
    layout.recompute = Recompute::kFull;
    const Program program = PlanOf(layout, 1).program;
    std::map<std::pair<int64_t, int>, std::set<std::string>> draws;  // site and slice
    std::map<std::pair<int64_t, int>, std::set<int64_t>> firsts;
    for (const Op& op : program.ops) {
      const std::vector<const char*>& names = InfoOf(op.kind).attributes;
      const auto drop = std::find_if(names.begin(), names.end(),
                                     [](const char* n) { return n == std::string("drop"); });
      if (drop == names.end()) continue;
      const size_t i = static_cast<size_t>(drop - names.begin());
      EXPECT_EQ(op.attributes[i], int64_t{1} << 30) << PrintTag(op.tag);  // of 2^32
      const std::pair<int64_t, int> key{op.attributes[i + 1], op.tag.slice};
      draws[key].insert(op.tag.name + std::to_string(op.tag.layer));
      firsts[key].insert(op.attributes[i + 2]);
    }
    // The embedding, and three in each layer.
    EXPECT_EQ(draws.size(), 2u * (1 + 2 * 3));
    for (const auto& [key, names] : draws) EXPECT_EQ(names.size(), 1u) << *names.begin();
    for (const auto& [key, first] : firsts) {
      // Slice 1 starts behind the first sequence; rank 1 has the second half of a slice's own rows.
      const bool attention = draws[key].begin()->starts_with("attention");
      const int64_t own = sequence_parallel && !attention ? (key.second == 0 ? 2 : 4) : 0;
      EXPECT_THAT(first, ElementsAre((key.second == 0 ? 0 : 4) + own)) << *draws[key].begin();
    }
  }
}

TEST(EmitTest, WithoutDropoutNothingIsDrawn) {
  const StepProgram step = EmittedOf(SpecOf(Domino({1, 1}))).step;
  EXPECT_TRUE(OfKind(step, OpKind::kDropout).empty());
  for (const Op& op : OfKind(step, OpKind::kBiasResidual))
    EXPECT_THAT(op.attributes, ElementsAre(0, 0, 0));
}

TEST(EmitTest, SequenceParallelKeepsAShareOfTheResidualStreamOnEachRank) {
  Layout layout = Domino({1, 2});
  layout.sequence_parallel = true;
  const StepProgram step = EmittedOf(SpecOf(layout)).step;
  for (OpKind kind : {OpKind::kLayerNorm, OpKind::kLayerNormDgrad, OpKind::kBiasResidual}) {
    for (const Op& op : OfKind(step, kind))
      EXPECT_EQ(At(step, op.out[0]).shape[0], op.tag.slice == 0 ? 2 : 4) << PrintTag(op.tag);
  }
  // What the ranks add up later is each rank's share, of each row once.
  for (const Op& op : OfKind(step, OpKind::kBiasGrad)) {
    const bool replicated = op.tag.name == "proj" || op.tag.name == "fc2";
    EXPECT_EQ(At(step, op.in[0]).shape[0], (op.tag.slice == 0 ? 4 : 8) / (replicated ? 2 : 1))
        << PrintTag(op.tag);
  }
  for (const Op& op : OfKind(step, OpKind::kPositionGrad))
    EXPECT_EQ(At(step, op.in[0]).shape[0], op.tag.slice == 0 ? 2 : 4);
  for (const Op& op : OfKind(step, OpKind::kAllGather)) {
    EXPECT_EQ(At(step, op.out[0]).count(), 2 * At(step, op.in[0]).count());
  }
  for (const Op& op : OfKind(step, OpKind::kReduceScatter)) {
    EXPECT_EQ(At(step, op.in[0]).count(), 2 * At(step, op.out[0]).count());
  }
  EXPECT_EQ(OfKind(step, OpKind::kAllReduce).size(), 2u);  // the cross-entropy sums
}

// What each rank has of its own rows only is added up in one go, and nothing else is.
TEST(EmitTest, SequenceParallelAddsUpTheGradientsOfReplicatedParameters) {
  for (Family family : EveryFamily()) {
    Layout layout = Domino({1, 1});
    layout.family = family;
    layout.sequence_parallel = true;
    const EngineSpec spec = SpecOf(layout);
    const Emitted emitted = EmittedOf(spec);
    const Op& bucket = emitted.step.units.back().ops.at(0);
    ASSERT_EQ(bucket.kind, OpKind::kAllReduce);
    int64_t next = 0;
    const std::vector<Parameter> parameters = ParametersOf(spec.model, 2, 0);
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Root root = RootOf(emitted.step.buffers, emitted.buffers.gradient[i]);
      EXPECT_EQ(root.buffer == bucket.in[0], !parameters[i].sharded()) << parameters[i].name;
      if (parameters[i].sharded()) continue;
      EXPECT_EQ(root.element, next) << parameters[i].name;
      next += parameters[i].count();
    }
    EXPECT_EQ(At(emitted.step, bucket.in[0]).count(), next);
  }
}

TEST(EmitTest, ColumnPiecesLieOneAfterTheOther) {
  Layout layout = LayoutOf("domino_col", 1);
  const StepProgram step = EmittedOf(SpecOf(layout)).step;
  std::vector<int64_t> forward, weights, backward, columns;
  for (const Op& op : MicroBatch(step)) {
    if (op.tag.name == "fc2" && op.kind == OpKind::kGemm) {
      EXPECT_THAT(At(step, op.in[1]).shape, ElementsAre(4, 8));  // half of the weight's rows
      EXPECT_THAT(At(step, op.out[0]).shape, ElementsAre(8, 4));
      forward.push_back(RootOf(step.buffers, op.out[0]).element);
      weights.push_back(RootOf(step.buffers, op.in[1]).element);
    }
    if (op.tag.name == "fc1" && op.kind == OpKind::kGemmDgrad) {
      EXPECT_THAT(At(step, op.in[1]).shape, ElementsAre(8, 8));  // all of it
      EXPECT_THAT(At(step, op.out[0]).shape, ElementsAre(8, 4));
      backward.push_back(RootOf(step.buffers, op.out[0]).element);
      columns.push_back(op.attributes[0]);
    }
  }
  EXPECT_THAT(forward, ElementsAre(0, 32));
  EXPECT_THAT(weights, ElementsAre(0, 32));
  EXPECT_THAT(backward, ElementsAre(0, 32));
  EXPECT_THAT(columns, ElementsAre(0, 4));
}

TEST(EmitTest, TheHeadIsTheEmbeddingWhereItIsTied) {
  struct Case {
    Family family;
    bool other_options;
    const char* weight;
  };
  for (const auto& [family, other_options, weight] :
       std::vector<Case>{{Family::kGpt, false, "embedding.token.weight"},
                         {Family::kGpt, true, "head.weight"},
                         {Family::kLlama, false, "head.weight"},
                         {Family::kLlama, true, "embedding.token.weight"}}) {
    Layout layout = Domino({1, 1});
    layout.family = family;
    layout.other_options = other_options;
    const StepProgram step = EmittedOf(SpecOf(layout)).step;
    std::set<std::string> read;
    for (const Op& op : MicroBatch(step)) {
      if (op.tag.name == "head" && !IsCollective(op.kind) && op.kind != OpKind::kGemmWgrad)
        read.insert(At(step, op.in[1]).name);
    }
    EXPECT_THAT(read, UnorderedElementsAre(weight));
  }
}

TEST(EmitTest, LlamaTurnsQueriesAndKeysAndTurnsTheirGradientsBack) {
  Layout layout = Domino({1, 1});
  layout.family = Family::kLlama;
  const StepProgram step = EmittedOf(SpecOf(layout), 1).step;
  std::map<Phase, int> turned;
  for (const Op& op : OfKind(step, OpKind::kRotary)) {
    ++turned[op.tag.phase];
    // sequence, heads, key/value heads, dimension, first head, base, inverse
    EXPECT_THAT(
        op.attributes,
        ElementsAre(4, 2, 1, 2, 2, 10000, op.tag.phase == Phase::kBackward ? 1 : 0, 0, 0, 0, 0, 0));
  }
  EXPECT_EQ(turned[Phase::kForward], 2 * 2);
  EXPECT_EQ(turned[Phase::kBackward], 2 * 2);
  EXPECT_TRUE(OfKind(step, OpKind::kAddPosition).empty());
  EXPECT_TRUE(OfKind(step, OpKind::kBiasGrad).empty());
  EXPECT_EQ(OfKind(step, OpKind::kSwiGlu).size(), 4u);
}

TEST(EmitTest, StretchedPositionsTurnSoBothWays) {
  Layout layout = Domino({1, 1});
  layout.family = Family::kLlama;
  layout.other_options = true;
  EngineSpec spec = SpecOf(layout);
  const auto scalings = [&] {
    std::set<std::vector<int64_t>> found;
    for (const Op& op : OfKind(EmittedOf(spec).step, OpKind::kRotary))
      found.insert({op.attributes.begin() + 7, op.attributes.end()});
    return found;
  };
  EXPECT_THAT(scalings(), ElementsAre(ElementsAre(2, RealAttribute(8), RealAttribute(1),
                                                  RealAttribute(4), 16)));
  spec.model.rotary_scaling.kind = RotaryScaling::Kind::kLinear;
  EXPECT_THAT(scalings(), ElementsAre(ElementsAre(1, RealAttribute(8), 0, 0, 0)));
}

TEST(EmitTest, NormsTakeTheEpsilonOfTheModel) {
  for (const OpKind kind : {OpKind::kLayerNorm, OpKind::kRmsNorm}) {
    Layout layout = Domino({1, 1});
    layout.family = kind == OpKind::kLayerNorm ? Family::kGpt : Family::kLlama;
    for (const auto& [epsilon, attribute] :
         {std::pair{1e-5, int64_t{0}}, {1e-6, RealAttribute(1e-6)}}) {
      EngineSpec spec = SpecOf(layout);
      spec.model.norm_epsilon = epsilon;
      const std::vector<Op> norms = OfKind(EmittedOf(spec).step, kind);
      EXPECT_EQ(norms.size(), 2u * (2 * 2 + 1));
      for (const Op& norm : norms) EXPECT_THAT(norm.attributes, ElementsAre(attribute));
    }
  }
}

// Activations may travel in a narrower type than they are computed in; sums of the loss and of the
// gradient norm may not.
TEST(EmitTest, OnlyActivationsTravelInTheWireType) {
  for (bool sequence_parallel : {false, true}) {
    Layout layout = Domino({1, 1});
    layout.sequence_parallel = sequence_parallel;
    EngineSpec spec = SpecOf(layout);
    spec.wire_dtype = DType::kBF16;
    for (const Unit& unit : EmittedOf(spec).step.units) {
      for (const Op& op : unit.ops) {
        if (!IsCollective(op.kind) || op.kind == OpKind::kAllReduceMax) continue;
        const bool exact = op.tag.name == "sum" || op.tag.phase == Phase::kOptimizer;
        EXPECT_EQ(op.attributes[0], static_cast<int64_t>(exact ? DType::kF32 : DType::kBF16))
            << PrintTag(op.tag);
      }
    }
  }
}

}  // namespace
}  // namespace stretto
