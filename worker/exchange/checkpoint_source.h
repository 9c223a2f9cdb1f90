// SPDX-License-Identifier: Apache-2.0
#pragma once
// A checkpoint of a job as a model source. Its master weights are already f32 and in our order.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/exchange/model_source.h"

namespace stretto {

// Returns the folder of the checkpoint that `folder` denotes: itself if it has a manifest, else the
// newest of a job's folder by (epoch, step), or the best (best.h) for "JOB/best", among those that
// KeepProject leaves. Changes nothing: a damaged checkpoint is not renamed. If any manifest cannot
// be read, that is the error, because that checkpoint is then unknown. Errors: NotFound (no
// checkpoint), DataLoss, those of KeepProject and of ErrnoStatus.
absl::StatusOr<std::string> CheckpointFolderOf(const std::string& folder,
                                               const std::string& project = "");

// `folder` is in the form of CheckpointFolderOf. Verifies sizes and checksums of all files. Errors:
// those of OpenModel.
absl::StatusOr<std::unique_ptr<ModelSource>> OpenCheckpoint(const std::string& name,
                                                            const std::string& folder);

}  // namespace stretto
