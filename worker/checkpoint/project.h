// SPDX-License-Identifier: Apache-2.0
#pragma once
// The project of the job that wrote a checkpoint, which the checkpoint has as an attachment:
//   project.json    {"project": "speech"}
// A checkpoint of a release that wrote none is of no project, and of use to jobs of each of them.

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/lineage.h"

namespace stretto {

inline constexpr char kProjectName[] = "project.json";

std::string ProjectText(const std::string& project);

// Returns the project of the checkpoint in `folder`; empty if it has none. Errors: InvalidArgument
// (project.json is damaged), those of ReadFile.
absl::StatusOr<std::string> ProjectOf(const std::string& folder, const Manifest& manifest);

// Checks that the checkpoint is of this project or of none; an empty project stands for each.
// Errors: FailedPrecondition (names both), those of ProjectOf.
absl::Status CheckProject(const std::string& folder, const Manifest& manifest,
                          const std::string& project);

// Removes those that CheckProject refuses for their project. One whose project cannot be read
// stays, so that its own check says why. Errors: FailedPrecondition (no other is left; names their
// projects).
absl::Status KeepProject(const std::string& job_folder, const std::string& project,
                         std::vector<StoredCheckpoint>* stored);

// FindNewestValid among the checkpoints that KeepProject leaves. Errors: those of both.
absl::StatusOr<FoundCheckpoint> FindNewestOfProject(const std::string& job_folder,
                                                    const std::string& project,
                                                    const CheckFolder& check = {});

}  // namespace stretto
