#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

// A view of the rows of both, where the second follows the first in one buffer of whole rows.
std::optional<int> Adjoined(StepProgram* step, int first, int second) {
  const Buffer a = step->buffers[static_cast<size_t>(first)];
  const Buffer b = step->buffers[static_cast<size_t>(second)];
  const bool follows = a.alias >= 0 && a.alias == b.alias && a.shape[1] == b.shape[1] &&
                       a.alias_offset + a.count() == b.alias_offset;
  if (!follows) return std::nullopt;
  Buffer both = a;
  both.shape[0] += b.shape[0];
  both.name = absl::StrCat(a.name, "+");
  step->buffers.push_back(std::move(both));
  return static_cast<int>(step->buffers.size()) - 1;
}

}  // namespace

absl::Status MergeWgrads(const EngineSpec& spec, StepProgram* step) {
  if (!spec.schedule.merge_wgrads) return absl::OkStatus();
  std::vector<Op>& ops = step->units[static_cast<size_t>(FindUnit(*step, kMicroBatchUnit))].ops;
  std::map<std::pair<int, std::string>, size_t> last;  // by gradient and tag name
  std::vector<bool> merged(ops.size(), false);
  for (size_t i = 0; i < ops.size(); ++i) {
    if (ops[i].kind != OpKind::kGemmWgrad) continue;
    const std::pair<int, std::string> key = {ops[i].out[0], ops[i].tag.name};
    if (const auto it = last.find(key); it != last.end()) {
      const Op& before = ops[it->second];
      const std::optional<int> dy = Adjoined(step, before.in[0], ops[i].in[0]);
      const std::optional<int> x = Adjoined(step, before.in[1], ops[i].in[1]);
      if (dy.has_value() && x.has_value()) {
        ops[i].in[0] = *dy;
        ops[i].in[1] = *x;
        merged[it->second] = true;
      }
    }
    last[key] = i;
  }
  size_t index = 0;
  std::erase_if(ops, [&](const Op&) { return merged[index++]; });
  return absl::OkStatus();
}

}  // namespace stretto
