// SPDX-License-Identifier: Apache-2.0

// The activations of found plans, beside those of megatron_sync.

#include <algorithm>
#include <iostream>
#include <random>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/schedule/search/costs.h"
#include "tests/worker/engine/schedule/search/helices.h"
#include "tests/worker/engine/specs.h"

namespace stretto {
namespace {

double ActivationsOf(const EngineSpec& spec) {
  return static_cast<double>((*PlanArenas(spec, 0))[ArenaClass::kActivation]);
}

double OfMegatronSync(Layout layout, int layers) {
  layout.schedule = "megatron_sync";
  layout.slices = {2};
  layout.layers = layers;
  return ActivationsOf(LargeSpec(layout));
}

struct Largest {
  double ratio = 0, full = 0, bound = 0;  // to megatron_sync; with full recomputation; to the bound
};

void Say(const std::string& what, const Largest& largest) {
  std::cout << what << ": at most " << largest.ratio
            << " of megatron_sync, with full recomputation " << largest.full << "; "
            << largest.bound << " of the bound\n";
}

class WovenStep {
 public:
  explicit WovenStep(const Layout& layout)
      : layout_(layout), spec_(LargeSpec(layout)), sync_(OfMegatronSync(layout, layout.layers)) {
    absl::StatusOr<RankPlan> given = DraftPlan(spec_, 0);
    EXPECT_TRUE(given.ok()) << given.status();
    if (given.ok()) given_ = std::move(given->step);
    if (layout.recompute != Recompute::kFull) return;
    // Each strand has a layer whole, so what forward of a layer keeps until the layer is done comes
    // on top.
    Layout kept = layout;
    kept.recompute = Recompute::kNone;
    layer_ = OfMegatronSync(kept, 2) - OfMegatronSync(kept, 1);
  }

  // Adds the plan that is found at these costs.
  void Expect(const CostModel& cost, int pace, const std::string& where, Largest* largest,
              WeaveForm form = WeaveForm::kEvents) const {
    EngineSpec spec = spec_;
    spec.schedule.weave = PrintWeavePlan(Find(given_, cost, pace, form).plan);
    const double found = ActivationsOf(spec);
    const double bound = sync_ * (1 + 2.0 / layout_.layers) + layer_;
    EXPECT_LE(found / bound, 1) << Describe(layout_) << " pace " << pace << where;
    double& ratio = layout_.recompute == Recompute::kFull ? largest->full : largest->ratio;
    ratio = std::max(ratio, found / sync_);
    largest->bound = std::max(largest->bound, found / bound);
  }

 private:
  const Layout layout_;
  const EngineSpec spec_;
  const double sync_;
  StepProgram given_;
  double layer_ = 0;  // added to the bound
};

class FoundMemoryOfLayersTest : public testing::TestWithParam<int> {};

TEST_P(FoundMemoryOfLayersTest, IsAtMostTwoLayersMoreThanMegatronSync) {
  const int layers = GetParam();
  Largest largest;
  for (const Layout& layout : ManyHelices(layers)) {
    const bool hardest = layout.sequence_parallel && layout.slices.size() == 1 &&
                         layout.recompute != Recompute::kNone;
    if (layers > 24 && !hardest) continue;  // time
    const WovenStep woven(layout);
    for (double gbps : {0.25, 0.5, 1.0, 2.0})
      woven.Expect(LargeCosts(gbps), 1, absl::StrCat(" at ", gbps, " Gbit/s"), &largest);
  }
  Say(absl::StrCat(layers, " layers"), largest);
}

INSTANTIATE_TEST_SUITE_P(Layers, FoundMemoryOfLayersTest, testing::Values(2, 8, 24, 96),
                         testing::PrintToStringParamName());

// Layers and pace.
class FoundMemoryAtAPaceTest : public testing::TestWithParam<std::tuple<int, int>> {};

// Pace and contention decide what runs beside what.
TEST_P(FoundMemoryAtAPaceTest, IsAtMostTwoLayersMoreThanMegatronSync) {
  const auto [layers, pace] = GetParam();
  std::mt19937 random(7);
  Largest largest;
  for (const Layout& layout : ManyHelices(layers)) {
    const WovenStep woven(layout);
    for (double gbps : {0.25, 1.0}) {
      const CostModel alone = LargeCosts(gbps);
      const std::string where = absl::StrCat(" at ", gbps, " Gbit/s");
      woven.Expect(alone, pace, where, &largest);
      woven.Expect(WithContention(alone, &random), pace, where + " with contention", &largest);
    }
  }
  Say(absl::StrCat(layers, " layers, pace ", pace), largest);
}

INSTANTIATE_TEST_SUITE_P(Layers, FoundMemoryAtAPaceTest,
                         testing::Combine(testing::Values(2, 8), testing::Values(0, 1)),
                         [](const auto& info) {
                           return absl::StrCat(std::get<0>(info.param), "AtPace",
                                               std::get<1>(info.param));
                         });

// Without collectives, and with shorter products beside them.
TEST(FoundMemoryTest, HoldsForOtherTpSizes) {
  Largest largest;
  for (Layout layout : ManyHelices(8)) {
    for (int tp_size : {1, 4}) {
      layout.tp_size = tp_size;
      WovenStep(layout).Expect(LargeCosts(0.5), 1, absl::StrCat(" TP ", tp_size), &largest);
    }
  }
  Say("TP 1 and 4", largest);
}

TEST(FoundMemoryTest, HoldsWithBarriers) {
  Largest largest;
  for (int layers : {1, 2}) {
    for (const Layout& layout : ManyHelices(layers)) {
      // Half of kMostBlockLayers, because the time of this search grows fast.
      if (layers * std::ssize(layout.slices) > kMostBlockLayers / 2) continue;
      const WovenStep woven(layout);
      for (double gbps : {0.25, 1.0})
        woven.Expect(LargeCosts(gbps), 1, " with barriers", &largest, WeaveForm::kBlocks);
    }
  }
  Say("with barriers", largest);
}

}  // namespace
}  // namespace stretto
