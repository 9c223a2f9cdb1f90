// SPDX-License-Identifier: Apache-2.0

// The text of weave plans, which a job spec may hold: any text gives plans or an error. Plans print
// to a text that gives them again, and are checked against any stage without harm.
#include <cstddef>
#include <cstdint>

#include "proto/base/check.h"
#include "proto/spec/strands/weave_plan.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto plans = stretto::ParseWeavePlans(stretto::fuzz::TextOf(data, size));
  if (!plans.ok()) return 0;
  for (const stretto::WeavePlan& plan : *plans) {
    const auto again = stretto::ParseWeavePlan(stretto::PrintWeavePlan(plan));
    STRETTO_CHECK(again.ok() && *again == plan);
  }
  const auto alone = stretto::ParseWeavePlan(stretto::fuzz::TextOf(data, size));
  STRETTO_CHECK(alone.ok() == (plans->size() == 1));
  for (const int chunks : {1, 2}) {
    const stretto::WeaveShape shape{.chunks = chunks, .layers = 2, .slices = 2};
    stretto::CheckWeavePlans(*plans, shape).IgnoreError();
  }
  return 0;
}
