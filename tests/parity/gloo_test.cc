// SPDX-License-Identifier: Apache-2.0

// Training over TCP is bitwise equal to training in memory.

#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"
#include "tests/parity/matrix.h"
#include "tests/worker/comm/groups.h"

namespace stretto::parity {
namespace {

Machine GlooMachine(const std::vector<RankPlan>& plans, const Options& options) {
  return CpuMachineOn(LocalGroups([](int size) { return testing::Gloo(size); }), plans, options);
}

class GlooParityTest : public ::testing::TestWithParam<Layout> {};

TEST_P(GlooParityTest, RandomDelaysOverGlooHaveTheBitsOfTheSerialOracle) {
  const EngineSpec spec = SpecOf(GetParam());
  const Result oracle = Train(spec, {.variant = Variant::kSerialOracle, .steps = 3});
  ExpectSameBits(oracle,
                 Train(spec, {.steps = 3, .max_delay = absl::Microseconds(150)}, GlooMachine));
}

// Every schedule, with replicas in turn, and the woven ones also in stages and with more options.
std::vector<Layout> GlooLayouts() {
  std::vector<Layout> layouts;
  for (const ScheduleRules& takes : kSchedules) {
    for (bool sequence_parallel : {false, true}) {
      const size_t turn = layouts.size();
      layouts.push_back({.family = turn % 4 < 2 ? Family::kGpt : Family::kLlama,
                         .schedule = takes.name,
                         .dp_size = turn % 3 == 2 ? 2 : 1,
                         .slices = takes.sliced() ? std::vector<int>{3, 1} : std::vector{4},
                         .splits = takes.splits ? 2 : 1,
                         .sequence_parallel = sequence_parallel,
                         .micro_batches = 3,
                         .dtype = turn % 5 == 4 ? DType::kBF16 : DType::kF32});
    }
  }
  for (Family family : {Family::kGpt, Family::kLlama}) {
    const Layout helix = {.family = family,
                          .schedule = "helix",
                          .slices = {1, 1},
                          .dropout = 0.1,
                          .micro_batches = 5,
                          .layers = 4};
    layouts.push_back(helix);
    layouts.back().tp_size = 4;
    layouts.push_back(helix);
    layouts.back().dp_size = 2;
    layouts.back().zero = 1;
    for (Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
      layouts.push_back(helix);
      layouts.back().recompute = recompute;
      layouts.push_back(layouts.back());
      layouts.back().pp_size = 2;
      layouts.back() = InOrder(layouts.back(), "folded");
    }
  }
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(Layouts, GlooParityTest, ::testing::ValuesIn(GlooLayouts()), NameOfLayout);

}  // namespace
}  // namespace stretto::parity
