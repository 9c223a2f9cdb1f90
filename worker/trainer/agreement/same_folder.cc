// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/same_folder.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/beneath.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/agreement/control.h"
#include "worker/trainer/agreement/work_together.h"

namespace stretto::trainer {
namespace {

absl::Status Write(const std::string& path, const std::string& mark) {
  RETURN_IF_ERROR(MakeFolders(std::filesystem::path(path).parent_path()));
  return WriteFileAtomic(path, mark);
}

bool Sees(const std::string& path, const std::string& mark) {
  const absl::StatusOr<std::string> found = ReadSmallFile(path, static_cast<int64_t>(mark.size()));
  return found.ok() && *found == mark;
}

}  // namespace

absl::Status CheckSameFolder(const std::string& path, const std::string& mark,
                             Communicator& control) {
  const bool writes = control.rank() == 0;
  absl::Status written;
  RETURN_IF_ERROR(WorkTogether(control, [&] {
    if (writes) written = Write(path, mark);
    return absl::OkStatus();
  }));
  bool sees = false;
  RETURN_IF_ERROR(WorkTogether(control, [&] {
    sees = Sees(path, mark);
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(const std::vector<std::string> verdicts,
                   ExchangeText(control, sees ? "sees" : ""));
  if (writes) RemoveTree(path).IgnoreError();  // the next attempt replaces it
  if (verdicts[0].empty()) {
    if (writes) spdlog::warn("checkpoints cannot be written: {}", written.ToString());
    return absl::OkStatus();
  }
  std::vector<size_t> blind;
  for (size_t rank = 0; rank < verdicts.size(); ++rank) {
    if (verdicts[rank].empty()) blind.push_back(rank);
  }
  if (blind.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "checkpoint root: ", std::ssize(blind) == 1 ? "rank " : "ranks ", absl::StrJoin(blind, ", "),
      std::ssize(blind) == 1 ? " does" : " do", " not see ", path,
      ", which rank 0 has written; expected one file system under the --checkpoint-root of all "
      "nodes, because every rank writes a part of each checkpoint (checkpoint.disabled does "
      "without)"));
}

}  // namespace stretto::trainer
