// SPDX-License-Identifier: Apache-2.0

// Where micro-batches meet, and the end of the step.

#include <algorithm>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/ids.h"
#include "tests/worker/engine/schedule/positions.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/layout/layout.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

Layout Closed(const std::string& schedule, int micro_batches, bool sequence_parallel = false) {
  Layout layout = LayoutOf(schedule);
  layout.micro_batches = micro_batches;
  layout.sequence_parallel = sequence_parallel;
  return layout;
}

std::vector<std::string> UnitsOf(const StepProgram& step) {
  std::vector<std::string> names;
  for (const Unit& unit : step.units) names.push_back(unit.name);
  return names;
}

int MostSlots(const StepProgram& step) {
  int slots = 1;
  for (const Buffer& buffer : step.buffers) slots = std::max(slots, buffer.slots);
  return slots;
}

TEST(CloseTailsTest, AMicroBatchStartsWhileTheOneBeforeItEnds) {
  const StepProgram step = PlanOf(Closed("domino_row", 3)).step;
  EXPECT_THAT(UnitsOf(step),
              ElementsAre("begin", "micro_batch", "micro_batch behind micro_batch", "finish"));
  std::vector<std::vector<int>> micro_batches;
  std::vector<UnitId> units;
  for (const Instance& instance : step.instances) {
    units.push_back(instance.unit);
    micro_batches.push_back(instance.micro_batches);
  }
  EXPECT_THAT(ValuesOf(units), ElementsAre(0, 1, 2, 2, 3));
  EXPECT_THAT(micro_batches, ElementsAre(IsEmpty(), ElementsAre(0), ElementsAre(1, 0),
                                         ElementsAre(2, 1), ElementsAre(2)));
}

TEST(CloseTailsTest, OneMicroBatchHasNoNext) {
  const StepProgram step = PlanOf(Closed("domino_col", 1)).step;
  std::vector<UnitId> units;
  for (const Instance& instance : step.instances) units.push_back(instance.unit);
  EXPECT_THAT(ValuesOf(units), ElementsAre(0, 1, 2));
  EXPECT_EQ(MostSlots(step), 1);
}

// In the expansion, which has the true numbers.
TEST(CloseTailsTest, EveryMicroBatchRunsEveryOperationOnce) {
  for (const char* schedule : {"domino_row", "domino_col", "domino_hybrid"}) {
    std::map<std::string, std::vector<int>> micro_batches;
    for (const Op& op : PlanOf(Closed(schedule, 3)).program.ops) {
      if (op.tag.micro_batch < 0) continue;
      Tag tag = op.tag;
      tag.micro_batch = -1;
      std::string text = std::string(InfoOf(op.kind).name) + " " + PrintTag(tag);
      for (int64_t attribute : op.attributes) text += " " + std::to_string(attribute);
      micro_batches[text].push_back(op.tag.micro_batch);
    }
    for (const auto& [text, numbers] : micro_batches) {
      if (numbers.size() == 3) {
        EXPECT_THAT(numbers, ElementsAre(0, 1, 2)) << schedule << " " << text;
      } else {  // forward's column pieces have the same tag
        EXPECT_THAT(numbers, ElementsAre(0, 0, 1, 1, 2, 2)) << schedule << " " << text;
      }
    }
    EXPECT_FALSE(micro_batches.empty());
  }
}

// What waits for a sum over replicas must not stand before backward's last operations, but a sum
// that is ready must.
TEST(CloseTailsTest, SumsOverReplicasHoldUpNoneOfBackward) {
  Layout layout = Closed("domino_row", 2);
  layout.dp_size = 2;
  const Program program = PlanOf(layout).program;
  OpId last_backward = 0, upper_layer = 0, first_square = program.ops.next();
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (op.tag.phase == Phase::kBackward) last_backward = id;
    if (op.group == FindGroup(program.groups, kDpGroupName) && op.tag.name == "layers.1.mlp")
      upper_layer = id;
    if (op.kind == OpKind::kSumSquares) first_square = std::min(first_square, id);
  }
  ASSERT_TRUE(upper_layer > 0);
  EXPECT_LT(upper_layer, last_backward);
  EXPECT_GT(first_square, last_backward);
}

TEST(CloseTailsTest, TheLastCollectiveHasTheNextEmbeddingAndTheTailUnderIt) {
  for (bool sequence_parallel : {false, true}) {
    const Positions at(PlanOf(Closed("domino_row", 3, sequence_parallel)).program);
    for (int k : {0, 1}) {
      const OpId last = at.Collective("L0.qkv bwd s1", 0, k);
      at.ExpectUnder(last, at.At(OpKind::kEmbed, "embed fwd s0", k + 1));
      at.ExpectUnder(last, at.At(OpKind::kEmbed, "embed fwd s1", k + 1));
      at.ExpectUnder(last, at.At(OpKind::kGemmWgrad, "L0.qkv bwd s1", k));
      at.ExpectUnder(last, at.At(OpKind::kGemmWgrad, "L0.proj bwd s1", k));
      // The embedding's own collectives run under the rest of that tail.
      const OpId embedded = at.Collective("embed fwd s0", 0, k + 1);
      at.ExpectUnder(embedded, at.At(OpKind::kGemmWgrad, "L0.qkv bwd s1", k));
      at.ExpectUnder(embedded, at.At(OpKind::kLayerNormWgrad, "L0.ln2 bwd s1", k));
      at.ExpectUnder(at.Collective("embed fwd s1", 0, k + 1),
                     at.At(OpKind::kGemmWgrad, "L0.qkv bwd s1", k));
    }
  }
}

// Within a unit of several as well as between two.
TEST(CloseTailsTest, MergedMicroBatchesCloseTheirTailsToo) {
  Layout layout = Closed("domino_row", 4);
  layout.merge_wgrads = 2;
  const RankPlan plan = PlanOf(layout);
  EXPECT_THAT(UnitsOf(plan.step),
              ElementsAre("begin", "micro_batch", "micro_batch behind micro_batch", "finish"));
  std::vector<std::vector<int>> micro_batches;
  for (const Instance& instance : plan.step.instances)
    micro_batches.push_back(instance.micro_batches);
  EXPECT_THAT(micro_batches,
              ElementsAre(IsEmpty(), ElementsAre(0, 1), ElementsAre(2, 3, 1), ElementsAre(3)));
  const Positions at(plan.program);
  for (int k : {0, 1, 2}) {
    const OpId last = at.Collective("L0.qkv bwd s1", 0, k);
    at.ExpectUnder(last, at.At(OpKind::kEmbed, "embed fwd s0", k + 1));
    at.ExpectUnder(last, at.At(OpKind::kEmbed, "embed fwd s1", k + 1));
    at.ExpectUnder(last, at.At(OpKind::kLayerNormWgrad, "L0.ln2 bwd s1", k));
    if (k == 1) at.ExpectUnder(last, at.At(OpKind::kGemmWgrad, "L0.qkv bwd s1", k));
  }
}

TEST(CloseTailsTest, ColumnPiecesCloseTheirTailsToo) {
  const Positions at(PlanOf(Closed("domino_col", 2)).program);
  const OpId last = at.Collective("L0.qkv bwd s0", 1);
  at.ExpectUnder(last, at.At(OpKind::kEmbed, "embed fwd s0", 1));
  at.ExpectUnder(last, at.At(OpKind::kGemmWgrad, "L0.qkv bwd s0"));
  EXPECT_THAT(at.Under(at.Collective("embed fwd s0", 0, 1)), StartsWith("L0.w.proj_0 L0.w.qkv_0"));
}

TEST(CloseTailsTest, PublishedSchedulesAreLeftAsTheyAre) {
  for (const ScheduleRules& rules : kSchedules) {
    if (rules.weaves) continue;
    const std::string name = rules.name;
    const bool ours = rules.defers;
    const RankPlan plan = PlanOf(Closed(name, 2));
    EXPECT_EQ(UnitsOf(plan.step).back(), ours ? "finish" : "optimizer") << name;
    EXPECT_EQ(MostSlots(plan.step), ours ? 2 : 1) << name;
    const Positions at(plan.program);
    if (!ours) {
      EXPECT_TRUE(at.Before(at.At(OpKind::kEmbedGrad, "embed bwd s0"),
                            at.At(OpKind::kEmbed, "embed fwd s0", 1)))
          << name;
    }
  }
}

TEST(CloseTailsTest, OneRankHasNoTailToClose) {
  Layout layout = Closed("domino_row", 2);
  layout.tp_size = 1;
  EXPECT_THAT(UnitsOf(PlanOf(layout).step), ElementsAre("begin", "micro_batch", "optimizer"));
}

TEST(CloseTailsTest, OnlyWhatIsWrittenWhileTheTailRunsHasTwoCopies) {
  for (bool sequence_parallel : {false, true}) {
    const StepProgram step = PlanOf(Closed("domino_row", 3, sequence_parallel)).step;
    std::set<std::string> copied;
    for (const Buffer& buffer : step.buffers) {
      if (buffer.slots == 2) copied.insert(buffer.name);
    }
    if (sequence_parallel) {
      EXPECT_THAT(copied, UnorderedElementsAre("embedded.own.s0", "embedded.own.s1"));
    } else {
      EXPECT_THAT(copied, UnorderedElementsAre("embedded.s0", "embedded.s1"));
    }
  }
}

TEST(CloseTailsTest, NormPartsOfFinishedGradientsStandBeforeWhatStillWaits) {
  for (const char* schedule : {"domino_row", "helix"}) {
    const Positions at(PlanOf(Closed(schedule, 2)).program);
    const OpId last = at.Collective("L0.qkv bwd s1", 0, 1);
    const auto part = [&](const std::string& name) {
      return at.At(OpKind::kSumSquares, name + " opt");
    };
    for (const char* early : {"layers.1.mlp.fc1.weight", "layers.0.attention.qkv.weight",
                              "final_norm.bias", "layers.0.ln2.weight"})
      at.ExpectUnder(last, part(early));
    // Gradients that the tail still adds to.
    for (const char* late :
         {"embedding.token.weight", "embedding.position.weight", "layers.0.ln1.weight"}) {
      EXPECT_TRUE(at.Before(last, part(late))) << late;
      EXPECT_LT(at.At(OpKind::kEmbedGrad, "embed bwd s1", 1), part(late)) << late;
    }
  }
}

// Strands that are woven take turns already. The copies stay those of the cells.
TEST(CloseTailsTest, OfWovenPassesOnlyTheLastTailRunsWithTheOptimizer) {
  const StepProgram closed = PlanOf(Closed("helix", 3)).step;
  const StepProgram open = PlanOf(Closed("helix", 3), 0, Variant::kOpenTails).step;
  EXPECT_THAT(UnitsOf(closed),
              ElementsAre("begin", "embedding", "forward|embedding", "forward|backward|embedding",
                          "forward|backward", "backward", "finish"));
  EXPECT_THAT(closed.instances.back().micro_batches, ElementsAre(2));
  EXPECT_EQ(closed.repeat.count(), open.repeat.count());
  for (BufferId id : open.buffers.ids())
    EXPECT_EQ(closed.buffers[id].slots, open.buffers[id].slots) << open.buffers[id].name;
}

TEST(CloseTailsTest, UpdatesAtOnceStandBeforeWhatStillWaits) {
  for (bool sequence_parallel : {false, true}) {
    Layout layout = Closed("domino_row", 2, sequence_parallel);
    layout.update_at_once = true;
    const Positions at(PlanOf(layout).program);
    const OpId last = at.Collective("L0.qkv bwd s1", 0, 1), norm = at.Collective("grad_norm opt");
    const auto update = [&](const std::string& name) {
      return at.At(OpKind::kAdamW, name + " opt");
    };
    for (const char* early : {"layers.1.mlp.fc1.weight", "layers.0.attention.qkv.weight",
                              "layers.0.attention.proj.weight"})
      at.ExpectUnder(last, update(early));
    // The norm's collective has the updates by gradients that the tail adds to.
    for (const char* late : {"embedding.token.weight", "layers.0.ln1.weight"}) {
      EXPECT_TRUE(at.Before(last, update(late))) << late;
      at.ExpectUnder(norm, update(late));
    }
    // With sequence parallelism the ranks have yet to add up what they all have.
    const char* replicated = "layers.0.ln2.weight";
    EXPECT_EQ(at.MayRunUnder(last, update(replicated)), !sequence_parallel);
  }
}

TEST(CloseTailsTest, WhereTailsStayOpenUpdatesAtOnceRunUnderTheNormsCollective) {
  Layout layout = Closed("megatron_async", 2);
  layout.update_at_once = true;
  const Positions at(PlanOf(layout).program);
  for (const char* name : {"layers.1.mlp.fc1.weight", "embedding.token.weight"})
    at.ExpectUnder(at.Collective("grad_norm opt"),
                   at.At(OpKind::kAdamW, std::string(name) + " opt"));
}

// Every sum of squares and every update comes behind the last change of the gradient that it reads;
// updates behind the norm, or at once in front of it. Returns how many sums there are.
int ExpectFinalGradientsInTheOptimizer(const Positions& at, bool update_at_once) {
  const auto root = [&](BufferId id) { return RootOf(at.program().buffers, id).buffer; };
  std::map<BufferId, OpId> changed;  // gradient memory -> its last change
  std::vector<OpId> clips, parts, updates;
  for (OpId i : at.program().ops.ids()) {
    const OpKind kind = at.op(i).kind;
    const bool adds =
        InfoOf(kind).role == OperationRole::kWeightGradient || at.op(i).tag.name == "replicated";
    for (BufferId id : at.op(i).out) {
      if (adds) changed[root(id)] = i;
    }
    if (kind == OpKind::kClip) clips.push_back(i);
    if (kind == OpKind::kSumSquares) parts.push_back(i);
    if (kind == OpKind::kAdamW) updates.push_back(i);
  }
  for (const std::vector<OpId>* readers : {&parts, &updates}) {
    for (OpId reader : *readers)
      EXPECT_TRUE(at.Before(changed.at(root(at.op(reader).in[0])), reader))
          << PrintOp(at.program(), reader);
  }
  EXPECT_EQ(clips.size(), update_at_once ? 2 : 1);
  for (OpId update : updates) {
    EXPECT_TRUE(at.Before(clips.front(), update));
    EXPECT_EQ(at.Before(update, clips.back()), update_at_once);
  }
  EXPECT_TRUE(at.Before(at.Collective("grad_norm opt"), clips.back()));
  EXPECT_EQ(updates.size(), 4u + 2 * 12);
  return static_cast<int>(parts.size());
}

// Also of what other ranks still have to add, with sequence parallelism.
TEST(CloseTailsTest, OnlyUpdatesAtOnceDoNotWaitForTheNormAndAllReadFinalGradients) {
  for (const char* schedule : {"domino_row", "domino_col", "megatron_sync", "helix"}) {
    for (bool sequence_parallel : {false, true}) {
      for (bool update_at_once : {false, true}) {
        for (Rank rank : IdRange<Rank>(2)) {
          Layout layout = Closed(schedule, 2, sequence_parallel);
          layout.update_at_once = update_at_once;
          // Replicated parameters count on rank 0 alone.
          EXPECT_EQ(ExpectFinalGradientsInTheOptimizer(Positions(PlanOf(layout, rank).program),
                                                       update_at_once),
                    rank == 0 ? 4 + 2 * 12 : 1 + 2 * 6);
        }
      }
    }
  }
}

}  // namespace
}  // namespace stretto
