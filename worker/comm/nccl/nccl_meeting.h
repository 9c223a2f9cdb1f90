#pragma once
// How the ranks of an NCCL group find each other: through the store, before NCCL blocks on anyone.

#include "absl/status/statusor.h"
#include "worker/comm/nccl/nccl_communicator.h"
#include "worker/comm/nccl/nccl_library.h"

namespace stretto {

// Announces this rank as "<prefix>/<rank>", waits for the announcements of all and returns the id
// that rank 0 made ("<prefix>/id"). `deadline` is of options.polling.clock. Errors as
// NcclCommunicator::Connect; the messages do not name this rank.
absl::StatusOr<ncclUniqueId> MeetRanks(const NcclOptions& options, const NcclLibrary& nccl,
                                       absl::Duration deadline);

}  // namespace stretto
