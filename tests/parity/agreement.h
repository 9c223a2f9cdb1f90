// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every layout owes (DESIGN section 5): its serial oracle's bits, whatever the collectives'
// delays; the results of unsliced megatron_sync.

#include <algorithm>

#include "gtest/gtest.h"
#include "tests/parity/expect.h"

namespace stretto::parity {

// Updates at once clip nothing.
inline Options ThreeSteps(const Layout& layout) {
  return {.steps = 3, .clip_norm = layout.update_at_once ? 0.0 : 1.0, .gradients_of_step = 0};
}

// Unsliced megatron_sync of the same model, batch and types, on one replica; no sequence
// parallelism, nothing recomputed, one stage.
inline Layout BaselineOf(const Layout& layout, int tp_size) {
  return {.family = layout.family,
          .tp_size = tp_size,
          .dropout = layout.dropout,
          .other_options = layout.other_options,
          .document_mask = layout.document_mask,
          .micro_batches = layout.micro_batches * layout.dp_size,
          .layers = layout.layers,
          .dtype = layout.dtype,
          .wire = layout.wire};
}

inline void ExpectLossesWithin(double bound, const Result& result, const Result& reference) {
  ASSERT_EQ(result.steps.size(), reference.steps.size());
  for (size_t step = 0; step < reference.steps.size(); ++step) {
    const double loss = reference.steps[step].loss;
    EXPECT_NEAR(result.steps[step].loss, loss, bound * loss) << "step " << step;
  }
}

inline bool TpSizesAreEqual(const Layout& layout) {
  return std::all_of(layout.stages.begin(), layout.stages.end(),
                     [&](const StageSpec& stage) { return stage.tp_size == layout.tp_size; });
}

// Whether forward has the baseline's bits at the same TP size. Column pieces may run by another
// kernel; a narrow wire also rounds what sequence parallelism gathers and what stages send.
inline bool HasBitsOfBaseline(const Layout& layout) {
  const bool more_travels = (layout.sequence_parallel && layout.tp_size > 1) || layout.pp_size > 1;
  return layout.splits == 1 && TpSizesAreEqual(layout) &&
         !(more_travels && layout.wire == DType::kBF16);
}

// A pipeline is bitwise equal to one stage, the norm included, unless something is added
// up or rounded in another way. Stages that are not alike add up in another way.
inline void ExpectBitsOfOneStage(const Layout& layout, const EngineSpec& spec,
                                 const Options& options, const Result& result) {
  if (layout.pp_size == 1 || !layout.stages.empty() || layout.wire == DType::kBF16 ||
      spec.model.head_is_tied())
    return;
  Layout whole = layout;
  whole.pp_size = whole.chunks = 1;
  ExpectSameBits(result, Train(SpecOf(whole), options));
}

// Replicas that share the updates are bitwise equal to those that all do all of them.
inline void ExpectBitsWithoutZero(const Layout& layout, const Options& options,
                                  const Result& result) {
  if (layout.zero == 0) return;
  Layout plain = layout;
  plain.zero = 0;
  ExpectSameBits(result, Train(SpecOf(plain), options));
}

// Whatever way they take, transfers move the same numbers.
inline void ExpectBitsOfSends(const Layout& layout, const Options& options, const Result& result) {
  const bool sends = layout.stages.empty() && layout.transfer == Transfer::kAuto;
  if (layout.pp_size == 1 || sends || layout.transfer == Transfer::kSend) return;
  Layout plain = layout;
  plain.transfer = Transfer::kSend;
  ExpectSameBits(result, Train(SpecOf(plain), options));
}

inline void ExpectAgreement(const Layout& layout) {
  const EngineSpec spec = SpecOf(layout);
  const Options options = ThreeSteps(layout);
  Options delayed = options, oracle = options;
  delayed.max_delay = absl::Microseconds(100);
  oracle.variant = Variant::kSerialOracle;
  const Result result = Train(spec, delayed);
  ASSERT_EQ(result.steps.size(), 3u);
  ExpectSameBits(result, Train(spec, oracle));
  ExpectBitsOfOneStage(layout, spec, options, result);
  ExpectBitsWithoutZero(layout, options, result);
  ExpectBitsOfSends(layout, options, result);
  ExpectNonZero(spec, result.gradients);
  const double norm = Norm(result.gradients);
  EXPECT_NEAR(result.steps[0].gradient_norm, norm, 1e-6 * norm);

  const double depth = DepthOf(spec);
  const double gradient_bound = Rounds(spec) ? kBF16GradientBound * depth : kF32GradientBound;
  const double loss_bound = Rounds(spec) ? kBF16LossBound * depth : kF32LossBound;
  for (int tp_size : {layout.tp_size, 1}) {
    const Result baseline = Train(SpecOf(BaselineOf(layout, tp_size)), options);
    const bool same_bits = tp_size == layout.tp_size && HasBitsOfBaseline(layout);
    if (same_bits) {
      EXPECT_TRUE(SameBits(result.steps[0].token_losses, baseline.steps[0].token_losses));
    }
    ExpectGradientsWithin(same_bits ? WgradOrderBound(spec) : gradient_bound, spec.model,
                          result.gradients, baseline.gradients);
    ExpectLossesWithin(loss_bound, result, baseline);
    if (tp_size == 1) break;
  }
}

}  // namespace stretto::parity
