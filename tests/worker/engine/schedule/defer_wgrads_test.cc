// SPDX-License-Identifier: Apache-2.0

// Weight gradients of layers run a number of collectives later than the schedule placed them.

#include <algorithm>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/schedule/positions.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

Layout Deferring(const std::string& schedule, int collectives, bool sequence_parallel = false) {
  Layout layout = LayoutOf(schedule, 3);
  layout.sequence_parallel = sequence_parallel;
  layout.defer_wgrads = collectives;
  return layout;
}

// The weight gradients of layers in program order, with the collectives launched before each.
std::vector<std::pair<std::string, int>> Launched(const Layout& layout) {
  std::vector<std::pair<std::string, int>> gradients;
  int launched = 0;
  for (const Op& op : PlanOf(layout).program.ops) {
    if (IsCollective(op.kind)) ++launched;
    if (InfoOf(op.kind).role == OperationRole::kWeightGradient && op.tag.layer >= 0)
      gradients.emplace_back(std::string(InfoOf(op.kind).name) + " " + PrintTag(op.tag), launched);
  }
  return gradients;
}

TEST(DeferWgradsTest, EachRunsThatManyCollectivesLaterOrAfterTheLast) {
  for (const char* schedule : {"domino_row", "domino_col", "domino_hybrid"}) {
    for (bool sequence_parallel : {false, true}) {
      const auto before = Launched(Deferring(schedule, 0, sequence_parallel));
      std::map<std::string, int> launched(before.begin(), before.end());
      const Program program = PlanOf(Deferring(schedule, 0, sequence_parallel)).program;
      // Those that close the micro-batch: the optimizer's come later.
      const int all =
          static_cast<int>(std::count_if(program.ops.begin(), program.ops.end(), [](const Op& op) {
            return IsCollective(op.kind) && op.tag.phase != Phase::kOptimizer;
          }));
      for (int later : {1, 3, 5}) {
        for (const auto& [gradient, now] : Launched(Deferring(schedule, later, sequence_parallel)))
          EXPECT_EQ(now, std::min(launched.at(gradient) + later, all))
              << schedule << " " << later << ": " << gradient;
      }
    }
  }
}

TEST(DeferWgradsTest, TheyKeepTheirOrder) {
  const auto names = [](int later) {
    std::vector<std::string> result;
    for (const auto& [name, launched] : Launched(Deferring("domino_row", later)))
      result.push_back(name);
    return result;
  };
  const std::vector<std::string> order = names(0);
  EXPECT_EQ(order.size(), 3u * 2 * (4 + 4 + 2));
  for (int later : {1, 2, 100}) EXPECT_EQ(names(later), order) << later;
}

TEST(DeferWgradsTest, TheChainDoesNotMove) {
  const auto chain = [](int later) {
    std::vector<std::string> result;
    for (const Op& op : PlanOf(Deferring("domino_row", later)).program.ops) {
      if (op.tag.phase != Phase::kOptimizer &&
          InfoOf(op.kind).role != OperationRole::kWeightGradient)
        result.push_back(InfoOf(op.kind).name + PrintTag(op.tag));
    }
    return result;
  };
  EXPECT_EQ(chain(4), chain(0));
}

TEST(DeferWgradsTest, TheGradientOfTheEmbeddingComesBehindAll) {
  const Positions at(PlanOf(Deferring("domino_row", 100)).program);
  const OpId embedding = at.At(OpKind::kEmbedGrad, "embed bwd s0");
  for (const char* name : {"L2.fc1 bwd s0", "L0.qkv bwd s1", "L0.proj bwd s1"})
    EXPECT_LT(at.At(OpKind::kGemmWgrad, name), embedding) << name;
}

TEST(DeferWgradsTest, ACollectiveThenHasTheNextSlicesChainUnderItFirst) {
  const Positions at(PlanOf(Deferring("domino_row", 1)).program);
  EXPECT_EQ(at.Under(at.Collective("L1.fc1 bwd s0")),
            "L2.w.proj_1 L2.w.qkv_1 L2.w.ln2_0 L2.w.ln2_1 L2.d.ln1_1 d.fc2_1 d.act_1 d.fc1_1 "
            "w.fc2_0 w.fc1_0");
}

}  // namespace
}  // namespace stretto
