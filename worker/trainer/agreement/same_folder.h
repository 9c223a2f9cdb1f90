// SPDX-License-Identifier: Apache-2.0
#pragma once
// A checkpoint is one folder that the ranks of all nodes write into and that any rank may read, so
// their checkpoint roots must be one file system. Otherwise a job would learn it from its first
// checkpoint, after hours.

#include <string>

#include "absl/status/status.h"
#include "worker/comm/communicator.h"

namespace stretto::trainer {

// Proves that all ranks see what rank 0 writes: it writes `mark` to the file `path`, which is a
// path on every node and is removed again, and all ranks read it. They call this together. `mark`
// is theirs alone. If rank 0 cannot write, that is logged and nothing is proved, since a checkpoint
// will say the same. Errors, the same on all ranks: InvalidArgument, naming the ranks that do not
// see the file; those of the group.
absl::Status CheckSameFolder(const std::string& path, const std::string& mark,
                             Communicator& control);

}  // namespace stretto::trainer
