#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/reorder.h"
#include "worker/engine/schedule/weave.h"

namespace stretto {

absl::Status DominoRow(const EngineSpec& spec, StepProgram* step) {
  if (spec.micro_batch_size < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("schedule domino_row: found micro_batch_size ", spec.micro_batch_size,
                     ", expected at least 2: it cuts the batch into slices of whole sequences"));
  }
  if (spec.tp_size == 1) return absl::OkStatus();  // no collective to hide
  for (size_t unit = 0; unit < step->units.size(); ++unit) {
    const std::string& name = step->units[unit].name;
    if (name != "forward" && name != "backward") continue;
    const std::vector<Strand> strands = StrandsOf(step->units[unit]);
    RETURN_IF_ERROR(Reorder(step, static_cast<int>(unit), Weave(strands, RoundRobin(strands))));
  }
  return absl::OkStatus();
}

}  // namespace stretto
