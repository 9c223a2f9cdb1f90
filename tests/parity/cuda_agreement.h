// SPDX-License-Identifier: Apache-2.0
#pragma once
// What steps by the CUDA kernels must keep, on a GPU as on the emulated device.

#include <vector>

#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"

namespace stretto::parity {

// The bits of the schedule's serial oracle, and the CPU's losses and gradients within the bounds of
// the type.
inline void ExpectAgreesWithTheCpu(const Layout& layout, const MakeMachine& machine,
                                   const MakeMachine& of_oracle) {
  const EngineSpec spec = SpecOf(layout);
  const Result found = Train(spec, {.steps = 2}, machine);
  ExpectSameBits(found, Train(spec, {.variant = Variant::kSerialOracle, .steps = 2}, of_oracle));
  const Result cpu = Train(spec, {.steps = 2});
  ASSERT_EQ(found.steps.size(), cpu.steps.size());
  const double loss_bound = Rounds(spec) ? kBF16LossBound : kF32LossBound;
  for (size_t step = 0; step < cpu.steps.size(); ++step) {
    EXPECT_NEAR(found.steps[step].loss, cpu.steps[step].loss, loss_bound * cpu.steps[step].loss);
  }
  ExpectGradientsWithin(Rounds(spec) ? kBF16GradientBound : kF32GradientBound, spec.model,
                        found.gradients, cpu.gradients);
}

// Both families and types, not sliced on one rank, and overlapped on two with other options of the
// model; documents apart, merged weight gradients, stages and replicas.
inline std::vector<Layout> CudaLayouts() {
  std::vector<Layout> layouts;
  for (Family family : EveryFamily()) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      layouts.push_back({.family = family, .tp_size = 1, .dtype = dtype});
      layouts.push_back({.family = family,
                         .schedule = "domino_row",
                         .slices = {2, 2},
                         .dropout = family == Family::kGpt ? 0.1 : 0,
                         .other_options = true,
                         .micro_batches = 2,
                         .dtype = dtype});
    }
  }
  // Documents apart, in both families.
  layouts.push_back({.schedule = "domino_row",
                     .slices = {2, 2},
                     .dropout = 0.1,
                     .document_mask = true,
                     .micro_batches = 2});
  layouts.push_back({.family = Family::kLlama,
                     .schedule = "domino_row",
                     .slices = {1, 3},
                     .recompute = Recompute::kFull,
                     .document_mask = true,
                     .dtype = DType::kBF16});
  // Weight gradients of two micro-batches in one product, twice.
  layouts.push_back(
      {.schedule = "domino_row", .slices = {2, 2}, .merge_wgrads = 2, .micro_batches = 4});
  layouts.push_back({.family = Family::kLlama,
                     .schedule = "domino_row",
                     .slices = {2, 2},
                     .merge_wgrads = 2,
                     .micro_batches = 4,
                     .dtype = DType::kBF16});
  // Stages, which have unlike programs, sliced on two ranks each, and with replicas.
  layouts.push_back({.schedule = "domino_row", .pp_size = 2, .slices = {2, 2}, .micro_batches = 3});
  layouts.push_back({.family = Family::kLlama,
                     .tp_size = 1,
                     .dp_size = 2,
                     .zero = 1,
                     .pp_size = 2,
                     .micro_batches = 3,
                     .dtype = DType::kBF16});
  return layouts;
}

}  // namespace stretto::parity
