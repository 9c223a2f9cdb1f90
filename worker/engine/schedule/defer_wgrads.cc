#include <deque>

#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/reorder.h"
#include "worker/engine/schedule/units.h"

namespace stretto {

absl::Status DeferWgrads(const EngineSpec& spec, StepProgram* step) {
  if (spec.schedule.defer_wgrads == 0) return absl::OkStatus();
  struct Waiting {
    int op;
    int until;  // collectives launched
  };
  const int unit = FindUnit(*step, kMicroBatchUnit);
  const std::vector<Op>& ops = step->units[static_cast<size_t>(unit)].ops;
  std::deque<Waiting> queue;
  std::vector<int> order;
  int launched = 0;
  const auto release = [&](bool all) {
    for (; !queue.empty() && (all || queue.front().until <= launched); queue.pop_front())
      order.push_back(queue.front().op);
  };
  for (size_t i = 0; i < ops.size(); ++i) {
    const Role role = InfoOf(ops[i].kind).role;
    if (role == Role::kWeightGradient && ops[i].tag.layer >= 0) {
      queue.push_back({static_cast<int>(i), launched + spec.schedule.defer_wgrads});
      continue;
    }
    // The gradient of the embedding closes the micro-batch.
    if (role == Role::kWeightGradient && ops[i].tag.name == "embed") release(true);
    order.push_back(static_cast<int>(i));
    if (role == Role::kCollective) ++launched;
    release(false);
  }
  release(true);
  return Reorder(step, unit, order);
}

}  // namespace stretto
