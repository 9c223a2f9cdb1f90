// SPDX-License-Identifier: Apache-2.0

// 1f1b has a micro-batch more in a stage than in the next one, so that one may be computed there.
// During a transfer there and back neither stage has it, so for each period that the two transfers
// take, the stage needs one micro-batch more. What the next stage computes behind its send gives
// the way back as much time. With period T, the seconds of the slowest stage or link, and transfers
// c of the boundary behind stage i:
//
//   w_last = 1     w_i = w_{i+1} + 1 + ceil(max(0, c_forward + c_backward - delayed_{i+1}) / T)
//
// eager_1f1b (Zhuang et al. 2023) always adds one: more than fast links need, less than slow ones.

#include "worker/engine/schedule/pipeline/slack.h"

#include <algorithm>
#include <cmath>

#include "proto/base/check.h"

namespace stretto {

std::vector<int> SlackWarmUps(const std::vector<StageSeconds>& stages,
                              const std::vector<BoundarySeconds>& boundaries, int micro_batches) {
  STRETTO_CHECK(!stages.empty() && boundaries.size() + 1 == stages.size());
  double period = 0;
  for (const StageSeconds& stage : stages)
    period = std::max(period, stage.forward + stage.backward);
  for (const BoundarySeconds& boundary : boundaries)
    period = std::max({period, boundary.forward, boundary.backward});
  std::vector<int> warm_ups(stages.size(), 1);
  for (size_t stage = boundaries.size(); stage-- > 0;) {
    const BoundarySeconds& link = boundaries[stage];
    const double slack = link.forward + link.backward - stages[stage + 1].delayed;
    // No time is no slack; the cap also bounds a quotient of any size.
    const double periods = slack > 0 ? std::ceil(slack / period) : 0;
    const double wanted = warm_ups[stage + 1] + 1 + periods;
    warm_ups[stage] = static_cast<int>(std::min<double>(wanted, micro_batches));
  }
  return warm_ups;
}

std::vector<int> WithAtMost(int extra, std::vector<int> warm_ups) {
  const int stages = static_cast<int>(warm_ups.size());
  for (int stage = 0; stage < stages; ++stage) {
    int& own = warm_ups[static_cast<size_t>(stage)];
    own = std::min(own, stages - stage + extra);
  }
  return warm_ups;
}

std::vector<OpId> BehindSend(const Program& program) {
  std::vector<OpId> behind;
  bool sent = false;
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (op.tag.micro_batch != 0) continue;
    if (op.kind == OpKind::kSend && op.tag.phase == Phase::kBackward) {
      sent = true;
      behind.clear();
    }
    if (op.group < 0 && sent) behind.push_back(id);
  }
  return behind;
}

}  // namespace stretto
