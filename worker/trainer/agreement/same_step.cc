// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/same_step.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/skeleton.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::trainer {
namespace {

absl::Status Refused(const absl::Status& status) {
  return absl::InternalError(
      absl::StrCat("the programs of the ranks do not fit together: ", status.message(),
                   "; expected the same build of stretto on every node"));
}

}  // namespace

absl::Status CheckSameStep(const Program& mine, std::vector<GroupId> issued,
                           Communicator& control) {
  ASSIGN_OR_RETURN(Skeleton own, SkeletonOf(mine));
  own.issued = std::move(issued);
  const std::string bytes = Pack(own);
  ASSIGN_OR_RETURN(const std::vector<std::string> digests,
                   ExchangeText(control, absl::StrCat(bytes.size(), " ", Crc32c(bytes))));
  std::map<std::string, Skeleton> kinds;  // by digest
  for (size_t rank = 0; rank < digests.size(); ++rank) {
    if (kinds.contains(digests[rank])) continue;
    ASSIGN_OR_RETURN(const std::string theirs,
                     BroadcastText(control, bytes, static_cast<int>(rank)));
    absl::StatusOr<Skeleton> skeleton = Unpack(theirs);
    if (!skeleton.ok()) return Refused(skeleton.status());
    kinds.emplace(digests[rank], *std::move(skeleton));
  }
  std::vector<const Skeleton*> skeletons;
  for (const std::string& digest : digests) skeletons.push_back(&kinds.at(digest));
  const absl::Status status = VerifySkeletons(skeletons);
  return status.ok() ? status : Refused(status);
}

}  // namespace stretto::trainer
