#include "absl/strings/str_cat.h"
#include "worker/engine/schedule/passes.h"

namespace stretto {

absl::Status MegatronSync(const EngineSpec& spec, StepProgram*) {
  if (spec.schedule.slices.size() == 1)
    return absl::OkStatus();  // the canonical order is this schedule
  return absl::InvalidArgumentError(absl::StrCat(
      "schedule megatron_sync: found ", spec.schedule.slices.size(), " slices, expected 1"));
}

}  // namespace stretto
