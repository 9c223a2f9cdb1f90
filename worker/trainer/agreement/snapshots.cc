// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/snapshots.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "proto/base/status_macros.h"
#include "proto/base/units.h"
#include "worker/trainer/agreement/control.h"
#include "worker/trainer/agreement/work_together.h"

namespace stretto::trainer {

absl::StatusOr<std::optional<Snapshot>> MakeSnapshot(bool wanted, bool required, int64_t bytes,
                                                     Communicator& control) {
  std::optional<Snapshot> snapshot;
  absl::Status mine;
  RETURN_IF_ERROR(WorkTogether(control, [&] {
    if (!wanted) return absl::OkStatus();
    absl::StatusOr<Snapshot> made = Snapshot::Make(bytes);
    mine = made.status();
    if (made.ok()) snapshot.emplace(*std::move(made));
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(const bool without, AnyRank(control, !snapshot.has_value()));
  if (without && required) {
    RETURN_IF_ERROR(mine);
    return absl::UnavailableError("another rank has no room for its copy");
  }
  if (without) {
    snapshot.reset();
    spdlog::info("checkpoints are synchronous: training waits for their files");
  } else {
    spdlog::info("checkpoints are asynchronous: their copy takes {}", FormatBytes(bytes));
  }
  return snapshot;
}

}  // namespace stretto::trainer
