// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/trace/plain_step.h"

namespace stretto::cli {

void PlainStep::Add(const v1alpha1::TraceStep& step) {
  newest_ = step.step();
  int64_t checkpoint = 0;
  for (const int64_t wait : step.checkpoint_waits().duration_nanoseconds()) checkpoint += wait;
  const int64_t length = step.end_nanoseconds() - step.begin_nanoseconds();
  const bool evaluates = step.evaluations().begin_nanoseconds_size() > 0;
  if (!evaluates && checkpoint <= length / 100) plain_ = step.step();
}

}  // namespace stretto::cli
