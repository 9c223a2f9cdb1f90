// SPDX-License-Identifier: Apache-2.0
#pragma once
// A checkpoint of a job as a model: its master weights, in f32 and in our order already.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/exchange/model_source.h"

namespace stretto {

// The folder of the checkpoint that the name means: the folder itself if it has a manifest, else
// the newest of a job's folder, by (epoch, step). Nothing is changed: a checkpoint that is damaged
// stays where it is, and if one's manifest cannot be read that is the error, since the newest
// cannot be told. Errors: NotFound (no checkpoint), DataLoss, those of ErrnoStatus.
absl::StatusOr<std::string> CheckpointFolderOf(const std::string& folder);

// `folder` as CheckpointFolderOf takes it. Sizes and checksums of all files are verified. Errors:
// as OpenModel.
absl::StatusOr<std::unique_ptr<ModelSource>> OpenCheckpoint(const std::string& name,
                                                            const std::string& folder);

}  // namespace stretto
