// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/session/registration.h"

#include <algorithm>

namespace stretto::daemon {

namespace v1 = stretto::v1alpha1;

std::vector<HeldAnswer> AnswersTo(const std::vector<v1::HeldRank>& offered,
                                  const v1::Registered& registered) {
  std::vector<HeldAnswer> answers;
  for (const v1::HeldRank& held : offered) {
    HeldAnswer& answer = answers.emplace_back();
    answer.key = KeyOf(held);
    for (const v1::HeldRankReply& reply : registered.held()) {
      if (!(KeyOf(reply) == answer.key)) continue;
      answer.keep = reply.keep();
      answer.acked = reply.acked_sequence();
    }
  }
  return answers;
}

Membership Noted(const Membership& before, const std::string& cluster_id, int64_t epoch) {
  if (cluster_id.empty()) return before;
  return {cluster_id, std::max(before.newest_epoch, epoch)};
}

}  // namespace stretto::daemon
