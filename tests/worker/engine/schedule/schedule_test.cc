// What the schedules promise, as relative positions of operations and waits.

#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Positions {
 public:
  explicit Positions(Program program) : program_(std::move(program)) {}

  // The only operation of micro-batch 0 with this kind and tag, "fc2 fwd s0" or "L1.fc2 fwd s0".
  int At(OpKind kind, const std::string& text) const {
    int found = -1;
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      Tag tag = program_.ops[i].tag;
      if (program_.ops[i].kind != kind || tag.micro_batch > 0) continue;
      tag.micro_batch = -1;
      if (PrintTag(tag) != text) continue;
      EXPECT_EQ(found, -1) << "two operations " << text;
      found = static_cast<int>(i);
    }
    EXPECT_GE(found, 0) << "no operation " << text;
    return found;
  }
  // The operation that waits for `op`.
  int WaiterOf(int op) const {
    for (size_t i = 0; i < program_.ops.size(); ++i) {
      for (int wait : program_.ops[i].waits) {
        if (wait == op) return static_cast<int>(i);
      }
    }
    ADD_FAILURE() << "nothing waits for " << PrintOp(program_, op);
    return -1;
  }
  // Compute operations in program order that may run while the collective is in flight.
  void ExpectUnder(int collective, int op) const {
    EXPECT_LT(collective, op) << PrintOp(program_, op);
    EXPECT_LT(op, WaiterOf(collective)) << PrintOp(program_, op);
  }
  const Program& program() const { return program_; }

 private:
  Program program_;
};

constexpr auto kAr = OpKind::kAllReduce;

TEST(MegatronSyncTest, NothingRunsUnderACollective) {
  const Positions at(PlanOf({.schedule = "megatron_sync", .slices = {2}}).program);
  for (size_t i = 0; i < at.program().ops.size(); ++i) {
    if (!IsCollective(at.program().ops[i].kind)) continue;
    EXPECT_EQ(at.WaiterOf(static_cast<int>(i)), static_cast<int>(i) + 1);
    EXPECT_THAT(at.program().ops[i].waits, ElementsAre(static_cast<int>(i) - 1))
        << PrintOp(at.program(), static_cast<int>(i));
  }
}

TEST(MegatronSyncTest, RefusesSlices) {
  const absl::Status status =
      BuildPlan(SpecOf({.schedule = "megatron_sync", .slices = {1, 1}}), 0).status();
  EXPECT_EQ(status,
            absl::InvalidArgumentError("schedule megatron_sync: found 2 slices, expected 1"));
}

TEST(DominoRowTest, ForwardHidesEachAllReduceUnderTheOtherSlicesHalfBlock) {
  const Positions at(PlanOf(Domino({1, 1})).program);
  at.ExpectUnder(at.At(kAr, "L0.proj fwd s0"), at.At(OpKind::kAttention, "L0.attention fwd s1"));
  at.ExpectUnder(at.At(kAr, "L0.proj fwd s0"), at.At(OpKind::kGemm, "L0.proj fwd s1"));
  at.ExpectUnder(at.At(kAr, "L0.proj fwd s1"), at.At(OpKind::kGemm, "L0.fc2 fwd s0"));
  at.ExpectUnder(at.At(kAr, "L0.fc2 fwd s0"), at.At(OpKind::kGemm, "L0.fc1 fwd s1"));
  at.ExpectUnder(at.At(kAr, "L0.fc2 fwd s0"), at.At(OpKind::kGemm, "L0.fc2 fwd s1"));
}

TEST(DominoRowTest, ForwardOverlapsAcrossLayers) {
  const Positions at(PlanOf(Domino({1, 1})).program);
  for (const char* name : {"L1.qkv fwd s0", "L1.proj fwd s0"}) {
    at.ExpectUnder(at.At(kAr, "L0.fc2 fwd s1"), at.At(OpKind::kGemm, name));
  }
  at.ExpectUnder(at.At(kAr, "embed fwd s1"), at.At(OpKind::kAttention, "L0.attention fwd s0"));
  at.ExpectUnder(at.At(kAr, "L1.fc2 fwd s1"), at.At(OpKind::kGemm, "head fwd s0"));
}

TEST(DominoRowTest, BackwardLaunchesTheAllReduceBeforeItsWeightGradients) {
  const Positions at(PlanOf(Domino({1, 1})).program);
  for (const char* slice : {"s0", "s1"}) {
    const std::string s = slice;
    const int mlp = at.At(kAr, "L1.fc1 bwd " + s), attention = at.At(kAr, "L1.qkv bwd " + s);
    for (const char* name : {"L1.fc1 bwd ", "L1.fc2 bwd "})
      at.ExpectUnder(mlp, at.At(OpKind::kGemmWgrad, name + s));
    for (const char* name : {"L1.qkv bwd ", "L1.proj bwd "})
      at.ExpectUnder(attention, at.At(OpKind::kGemmWgrad, name + s));
    EXPECT_LT(at.At(OpKind::kGemmDgrad, "L1.fc1 bwd " + s), mlp);
  }
}

TEST(DominoRowTest, BackwardHidesEachAllReduceUnderTheOtherSlicesDgrads) {
  const Positions at(PlanOf(Domino({1, 1})).program);
  at.ExpectUnder(at.At(kAr, "L1.fc1 bwd s0"), at.At(OpKind::kGemmDgrad, "L1.fc2 bwd s1"));
  at.ExpectUnder(at.At(kAr, "L1.fc1 bwd s1"), at.At(OpKind::kAttentionGrad, "L1.attention bwd s0"));
  at.ExpectUnder(at.At(kAr, "L1.qkv bwd s0"), at.At(OpKind::kAttentionGrad, "L1.attention bwd s1"));
  at.ExpectUnder(at.At(kAr, "head bwd s0"), at.At(OpKind::kGemmDgrad, "head bwd s1"));
}

TEST(DominoRowTest, BackwardOverlapsAcrossLayersAndIsNotTheMirrorOfForward) {
  const Positions at(PlanOf(Domino({1, 1})).program);
  at.ExpectUnder(at.At(kAr, "L1.qkv bwd s1"), at.At(OpKind::kGemmDgrad, "L0.fc2 bwd s0"));
  at.ExpectUnder(at.At(kAr, "L1.qkv bwd s1"), at.At(OpKind::kGemmDgrad, "L0.fc1 bwd s0"));
  // Slices in the same order in both directions: slice 0's gradients come first.
  EXPECT_LT(at.At(OpKind::kGemmDgrad, "L1.fc2 bwd s0"), at.At(OpKind::kGemmDgrad, "L1.fc2 bwd s1"));
  EXPECT_LT(at.At(OpKind::kGemm, "L1.fc2 fwd s0"), at.At(OpKind::kGemm, "L1.fc2 fwd s1"));
}

TEST(DominoRowTest, WeightGradientsAccumulateInMicroBatchAndSliceOrder) {
  for (const std::vector<int>& slices : {std::vector<int>{1, 1}, {2, 1, 1}}) {
    const RankPlan plan = PlanOf(Domino(slices, 2));
    std::map<int, std::pair<int, int>> last;  // gradient -> (micro-batch, slice)
    for (const Op& op : plan.program.ops) {
      if (InfoOf(op.kind).role != Role::kWeightGradient) continue;
      for (int id : op.out) {
        const std::pair<int, int> now{op.tag.micro_batch, op.tag.slice};
        // The tied embedding gets the head's contributions of a micro-batch before the embedding's.
        const bool tied =
            plan.program.buffers[static_cast<size_t>(id)].name == "embedding.token.weight.grad";
        const auto it = last.find(id);
        const bool free = it == last.end() || (tied && it->second.first == now.first);
        EXPECT_TRUE(free || it->second < now) << PrintTag(op.tag);
        last[id] = now;
      }
    }
  }
}

TEST(DominoRowTest, UnequalSlicesTakeTheirShareOfRows) {
  const RankPlan plan = PlanOf(Domino({1, 3}));
  std::vector<int64_t> rows;
  for (const Op& op : plan.program.ops) {
    if (op.kind != OpKind::kAttention || op.tag.layer != 0) continue;
    rows.push_back(plan.program.buffers[static_cast<size_t>(op.in[0])].shape[0]);
  }
  EXPECT_THAT(rows, ElementsAre(4, 12));
}

TEST(DominoRowTest, RefusesAMicroBatchOfOneSequence) {
  const absl::Status status = BuildPlan(SpecOf(Domino({1})), 0).status();
  EXPECT_EQ(status, absl::InvalidArgumentError("schedule domino_row: found micro_batch_size 1, "
                                               "expected at least 2: it cuts the batch into "
                                               "slices of whole sequences"));
}

TEST(DominoRowTest, OneRankHasNothingToHide) {
  Shape shape = Domino({1, 1});
  shape.tp_size = 1;
  const Program program = PlanOf(shape).program;
  EXPECT_EQ(program.lanes.size(), 1u);
  for (const Op& op : program.ops) EXPECT_FALSE(IsCollective(op.kind));
}

TEST(PlanTest, AnUnknownScheduleNamesTheKnownOnes) {
  const absl::Status status =
      BuildPlan(SpecOf({.schedule = "domino_column", .slices = {2}}), 0).status();
  EXPECT_EQ(status,
            absl::InvalidArgumentError(
                "schedule.name: found 'domino_column', expected one of megatron_sync, domino_row"));
  EXPECT_THAT(ScheduleNames(), ElementsAre("megatron_sync", "domino_row"));
}

TEST(PlanTest, AllRanksOfEveryShapeVerifyTogether) {
  for (const Shape& shape : ManyShapes()) {
    for (Variant variant : {Variant::kSchedule, Variant::kSerialOracle, Variant::kComputeOnly,
                            Variant::kCommunicationOnly}) {
      const auto plans = BuildPlans(SpecOf(shape), variant);
      EXPECT_TRUE(plans.ok()) << Describe(shape) << ": " << plans.status();
    }
  }
}

TEST(PlanTest, TheSameSpecGivesTheSameProgram) {
  EXPECT_EQ(Print(PlanOf(Domino({2, 1}, 2)).program), Print(PlanOf(Domino({2, 1}, 2)).program));
}

// The schedule neither adds, removes nor changes an operation of the oracle.
TEST(PlanTest, AScheduleIsThePermutationOfItsOracle) {
  auto lines = [](const Program& program) {
    std::multiset<std::string> result;
    for (Op op : program.ops) {
      std::string line = std::string(InfoOf(op.kind).name) + " " + PrintTag(op.tag);
      for (int id : op.in) line += " " + program.buffers[static_cast<size_t>(id)].name;
      for (int id : op.out) line += " " + program.buffers[static_cast<size_t>(id)].name;
      result.insert(line);
    }
    return result;
  };
  const Shape shape = Domino({2, 1}, 2);
  EXPECT_EQ(lines(PlanOf(shape).program), lines(PlanOf(shape, 0, Variant::kSerialOracle).program));
}

TEST(PlanTest, MeasuringVariantsKeepOneSide) {
  const Shape shape = Domino({1, 1});
  for (const Op& op : PlanOf(shape, 0, Variant::kComputeOnly).program.ops)
    EXPECT_FALSE(IsCollective(op.kind));
  const Program communication = PlanOf(shape, 0, Variant::kCommunicationOnly).program;
  EXPECT_EQ(communication.ops.size(), 2u * (4 + 2 * 2 * 2) + 1);
  for (const Op& op : communication.ops) EXPECT_TRUE(IsCollective(op.kind) && op.waits.empty());
}

}  // namespace
}  // namespace stretto
