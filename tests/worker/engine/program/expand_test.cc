// SPDX-License-Identifier: Apache-2.0
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/ids.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/program.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two slots for three micro-batches: a weight, an activation per slot with a view, an input per
// micro-batch.
StepProgram SlottedStep() {
  StepProgram step;
  step.micro_batches = 3;
  step.lanes = {Lane{"compute"}, Lane{"copy"}};
  step.buffers = {
      {.name = "w", .shape = {4}, .arena = ArenaClass::kParameter},
      {.name = "a", .shape = {4}, .slots = 2},
      {.name = "a.low", .shape = {2}, .slots = 2, .alias = 1, .alias_offset = 2},
      {.name = "x", .shape = {4}, .arena = ArenaClass::kInput, .slots = kPerMicroBatch}};
  step.units = {{"forward",
                 {{.kind = OpKind::kGelu,
                   .lane = 0,
                   .tag = {.name = "up", .micro_batch = 0},
                   .in = {3},
                   .out = {1},
                   .attributes = {},
                   .waits = {}},
                  {.kind = OpKind::kGelu,
                   .lane = 1,
                   .tag = {.name = "down", .micro_batch = 0},
                   .in = {2},
                   .out = {0},
                   .attributes = {},
                   .waits = {0}}}}};
  for (int mb = 0; mb < 3; ++mb)
    step.instances.push_back({.unit = 0, .micro_batches = {mb}, .waits = {}});
  step.instances[2].waits = {{.op = 0, .instance = 0, .producer = 1}};
  return step;
}

TEST(ExpandTest, BuffersHaveOneCopyPerStepSlotOrMicroBatch) {
  const Program program = Expand(SlottedStep());
  std::vector<std::string> names;
  for (const Buffer& buffer : program.buffers) names.push_back(buffer.name);
  EXPECT_THAT(names, ElementsAre("w", "a#0", "a#1", "a.low#0", "a.low#1", "x#0", "x#1", "x#2"));
  EXPECT_EQ(program.buffers[4].alias, 2);
  EXPECT_EQ(program.buffers[4].alias_offset, 2);
}

TEST(ExpandTest, MicroBatchesTakeTheirSlotModuloSlots) {
  const StepProgram step = SlottedStep();
  const Program program = Expand(step);
  ASSERT_EQ(program.ops.size(), 6u);
  EXPECT_THAT(ValuesOf(program.ops[0].out), ElementsAre(1));
  EXPECT_THAT(ValuesOf(program.ops[2].out), ElementsAre(2));
  EXPECT_THAT(ValuesOf(program.ops[4].out), ElementsAre(1));
  EXPECT_THAT(ValuesOf(program.ops[4].in), ElementsAre(7));
  EXPECT_THAT(ValuesOf(program.ops[5].in), ElementsAre(3));
  EXPECT_EQ(BufferMap(step).Find(1, 2), 1);
  EXPECT_EQ(BufferMap(step).size(), 8);
  for (OpId i : program.ops.ids()) EXPECT_EQ(program.ops[i].tag.micro_batch, i.value() / 2);
}

TEST(ExpandTest, AnInstanceMayWeaveSeveralMicroBatches) {
  StepProgram step = SlottedStep();
  step.units[0].ops[1].tag.micro_batch = 1;
  step.instances = {{.unit = 0, .micro_batches = {2, 1}, .waits = {}}};
  const Program program = Expand(step);
  EXPECT_EQ(program.ops[0].tag.micro_batch, 2);
  EXPECT_EQ(program.ops[1].tag.micro_batch, 1);
  EXPECT_THAT(ValuesOf(program.ops[0].in), ElementsAre(7));
  EXPECT_THAT(ValuesOf(program.ops[0].out), ElementsAre(1));
  EXPECT_THAT(ValuesOf(program.ops[1].in), ElementsAre(4));
}

TEST(ExpandTest, WaitsInsideAUnitMoveWithItAndCarriedWaitsReachBack) {
  const Program program = Expand(SlottedStep());
  EXPECT_THAT(ValuesOf(program.ops[1].waits), ElementsAre(0));
  EXPECT_THAT(ValuesOf(program.ops[3].waits), ElementsAre(2));
  EXPECT_THAT(program.ops[2].waits, IsEmpty());
  EXPECT_THAT(ValuesOf(program.ops[4].waits), ElementsAre(1));
}

// However many micro-batches there are: the units are the same, only instances are more.
TEST(ExpandTest, UnitsStayTemplates) {
  const StepProgram three = PlanOf(Domino({2, 1}, 3)).step, six = PlanOf(Domino({2, 1}, 6)).step;
  ASSERT_EQ(three.units.size(), six.units.size());
  for (UnitId u : three.units.ids()) {
    const Unit &unit = three.units[u], &other = six.units[u];
    ASSERT_EQ(unit.ops.size(), other.ops.size()) << unit.name;
    for (OpId i : unit.ops.ids()) {
      EXPECT_EQ(unit.ops[i].tag, other.ops[i].tag) << unit.name << " " << i.value();
      EXPECT_EQ(unit.ops[i].in, other.ops[i].in) << unit.name << " " << i.value();
      EXPECT_EQ(unit.ops[i].waits, other.ops[i].waits) << unit.name << " " << i.value();
    }
  }
  EXPECT_EQ(six.instances.size(), three.instances.size() + 3);
}

TEST(ExpandTest, EveryMicroBatchRepeatsTheSameOperationsOnTheSameActivations) {
  const RankPlan plan = PlanOf(Domino({2, 1}, 3));
  std::vector<const Op*> first, last;
  for (const Op& op : plan.program.ops) {
    if (op.tag.micro_batch == 0) first.push_back(&op);
    if (op.tag.micro_batch == 2) last.push_back(&op);
  }
  ASSERT_EQ(first.size(), last.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i]->kind, last[i]->kind);
    for (size_t o = 0; o < first[i]->out.size(); ++o) {
      const Buffer& a = plan.program.buffers[first[i]->out[o]];
      const Buffer& b = plan.program.buffers[last[i]->out[o]];
      // Activations and gradients are the same memory, outputs of a micro-batch are its own.
      EXPECT_EQ(a.name == b.name, a.arena != ArenaClass::kOutput) << a.name;
    }
  }
}

}  // namespace
}  // namespace stretto
