// SPDX-License-Identifier: Apache-2.0

// The programs that measure one side: T_comp and T_comm.

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

// Kind, tag and shapes of the operands of all collectives, or of everything else, in order.
std::vector<std::string> Side(const Program& program, bool collectives) {
  std::vector<std::string> side;
  for (const Op& op : program.ops) {
    if (IsCollective(op.kind) != collectives) continue;
    std::string line = std::string(InfoOf(op.kind).name) + " " + PrintTag(op.tag);
    for (const BufferList* ids : {&op.in, &op.out}) {
      for (BufferId id : *ids) {
        const Buffer& buffer = program.buffers[id];
        line += " " + buffer.name + ":" + std::to_string(buffer.bytes());
      }
    }
    side.push_back(std::move(line));
  }
  return side;
}

TEST(MeasureTest, ComputeOnlyIsTheScheduleWithoutItsCollectives) {
  for (const Layout& layout : EverySchedule()) {
    const Program compute = PlanOf(layout, 0, Variant::kComputeOnly).program;
    EXPECT_EQ(compute.lanes.size(), 1u);
    for (const Op& op : compute.ops) EXPECT_TRUE(op.waits.empty());
    EXPECT_EQ(Side(compute, false), Side(PlanOf(layout).program, false)) << Describe(layout);
    EXPECT_TRUE(Side(compute, true).empty());
  }
}

TEST(MeasureTest, CommunicationOnlyIsItsCollectivesBackToBack) {
  for (const Layout& layout : EverySchedule()) {
    const Program communication = PlanOf(layout, 0, Variant::kCommunicationOnly).program;
    for (const Op& op : communication.ops) EXPECT_EQ(communication.lanes[op.lane].name, "comm.tp");
    EXPECT_EQ(Side(communication, true), Side(PlanOf(layout).program, true)) << Describe(layout);
    EXPECT_TRUE(Side(communication, false).empty());
  }
}

// Nothing computes what they move: it is there from the start.
TEST(MeasureTest, WhatTheOtherSideWouldHaveWrittenIsInput) {
  Layout layout = Domino({1, 1});
  layout.sequence_parallel = true;
  const Program compute = PlanOf(layout, 0, Variant::kComputeOnly).program;
  int gathered = 0;
  for (const Buffer& buffer : compute.buffers) {
    if (buffer.name != "L1.y1.s0" && buffer.name != "L0.proj.s1") continue;
    EXPECT_EQ(buffer.arena, ArenaClass::kInput) << buffer.name;
    ++gathered;
  }
  EXPECT_EQ(gathered, 2);
  const Program communication = PlanOf(layout, 0, Variant::kCommunicationOnly).program;
  for (const Op& op : communication.ops) {
    const bool gradients = op.tag.name == "replicated";  // which no backend mirrors on the host
    EXPECT_EQ(communication.buffers[op.in[0]].arena,
              gradients ? ArenaClass::kOptimizer : ArenaClass::kInput);
    EXPECT_TRUE(op.waits.empty());
  }
}

TEST(MeasureTest, TheCollectivesAreThoseOfTheModel) {
  // Per slice: embedding, two per layer and the head's two forward; two per layer and the head's
  // backward. Then the norm.
  Layout layout = Domino({1, 1});
  EXPECT_EQ(PlanOf(layout, 0, Variant::kCommunicationOnly).program.ops.size(),
            2u * (3 + 2 * 2 + 2 * 2 + 1) + 1);
  // A reduce-scatter and an all-gather for each of a layer; the gather of the final norm, and of
  // the embedding's gradient; the bucket of replicated gradients.
  layout.sequence_parallel = true;
  EXPECT_EQ(PlanOf(layout, 0, Variant::kCommunicationOnly).program.ops.size(),
            2u * (3 + 2 * 4 + 2 * 4 + 1 + 2) + 2);
}

}  // namespace
}  // namespace stretto
