// SPDX-License-Identifier: Apache-2.0

// Passes of weight gradients that fill the bubble: ZB-H1 (Qi et al. 2023, "Zero Bubble Pipeline
// Parallelism", section 2). Other stages wait for the gradient of a stage's input alone, so the
// passes that they wait for are short, and those of weight gradients stand where a stage would be
// idle.
//
// Weight gradients are delayed by as many micro-batches as the first stage is further ahead than
// this one. Every stage then keeps as many micro-batches between forward and weights as the first
// one does between forward and backward: the peak of memory is no higher than without passes of
// weight gradients, but for the gradients that these read. The first stage delays nothing.
//
// With three stages, where every pass takes one unit:
//
//   0 |F0|F1|F2|     |B0|W0|F3|B1|W1|F4|B2|W2|B3|W3|B4|W4|
//   1    |F0|F1|  |B0|F2|B1|W0|F3|B2|W1|F4|B3|W2|B4|W3|W4|
//   2       |F0|B0|F1|B1|F2|B2|W0|F3|B3|W1|F4|B4|W2|W3|W4|
//
// The bubble is (stages - 1) * (F + B - W), where 1f1b has (stages - 1) * (F + B + W).

#include <algorithm>

#include "proto/base/check.h"
#include "worker/engine/schedule/pipeline/order.h"

namespace stretto {

PipelineOrder WithWeights(const PipelineOrder& in_turn, int delay) {
  STRETTO_CHECK(in_turn.stride == 1);
  PipelineOrder order;
  order.period = in_turn.period + 1;
  const auto next = [&] { return static_cast<int>(order.cells.size()); };
  int done = 0;  // passes of weights
  const auto weights = [&] {
    order.cells.push_back({{.pass = PassKind::kWeights, .micro_batch = done++}});
  };
  // The first periods have no weight gradients yet.
  const int begin = std::min(in_turn.begin + delay * in_turn.period, in_turn.end);
  for (int i = 0; i < std::ssize(in_turn.cells); ++i) {
    const Turn& turn = in_turn.cells[static_cast<size_t>(i)].front();
    if (i == begin) order.begin = next();
    order.cells.push_back({turn});
    if (turn.pass == PassKind::kBackward && turn.micro_batch >= delay) weights();
    if (i + 1 == in_turn.end) order.end = next();
  }
  for (int left = delay; left > 0; --left) weights();
  return order;
}

}  // namespace stretto
