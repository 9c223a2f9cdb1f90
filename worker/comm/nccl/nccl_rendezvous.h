// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the ranks of an NCCL group find each other: through the store, before NCCL waits for one.

#include "absl/status/statusor.h"
#include "worker/comm/nccl/nccl_communicator.h"
#include "worker/comm/nccl/nccl_library.h"

namespace stretto {

// Announces this rank under "<prefix>/<rank>", waits for the announcements of all ranks and returns
// the id that rank 0 made and published under "<prefix>/id". `deadline` is a time of
// options.polling.clock. Errors are those of NcclCommunicator::Connect; the messages do not name
// this rank.
absl::StatusOr<ncclUniqueId> AgreeOnUniqueId(const NcclOptions& options, const NcclLibrary& nccl,
                                             absl::Duration deadline);

}  // namespace stretto
