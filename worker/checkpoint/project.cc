// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/project.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/strict_json.h"

namespace stretto {

std::string ProjectText(const std::string& project) {
  nlohmann::ordered_json document;
  document["project"] = project;
  return document.dump(1) + "\n";
}

absl::StatusOr<std::string> ProjectOf(const std::string& folder, const Manifest& manifest) {
  if (manifest.FindAttachment(kProjectName) == nullptr) return std::string();
  const std::string path = absl::StrCat(folder, "/", kProjectName);
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const nlohmann::json document, ParseStrictJson(text, path));
  StrictObject object(document, path);
  std::string project = object.Text("project");
  if (object.status().ok() && project.empty()) object.Fail("project", "\"\"", "a name");
  RETURN_IF_ERROR(object.Finish());
  return project;
}

absl::Status CheckProject(const std::string& folder, const Manifest& manifest,
                          const std::string& project) {
  if (project.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::string found, ProjectOf(folder, manifest));
  if (found.empty() || found == project) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(folder, ": found a checkpoint of project ",
                                                    found, ", expected one of project ", project));
}

absl::Status KeepProject(const std::string& job_folder, const std::string& project,
                         std::vector<StoredCheckpoint>* stored) {
  if (project.empty()) return absl::OkStatus();
  std::set<std::string> others;
  std::erase_if(*stored, [&](const StoredCheckpoint& checkpoint) {
    const auto found = ProjectOf(checkpoint.folder.path, checkpoint.manifest);
    if (!found.ok() || found->empty() || *found == project) return false;
    others.insert(*found);
    return true;
  });
  if (!stored->empty() || others.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("checkpoints in ", job_folder, ": found only some of project ",
                   absl::StrJoin(others, ", "), ", expected one of project ", project));
}

}  // namespace stretto
