// SPDX-License-Identifier: Apache-2.0
#include "worker/comm/nccl/nccl_rendezvous.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

absl::StatusOr<std::string> GetBefore(const NcclOptions& options, const std::string& key,
                                      absl::Duration deadline) {
  const absl::Duration left = deadline - options.polling.clock->Monotonic();
  return options.store->Get(key, std::max(absl::ZeroDuration(), left));
}

// Every rank says what must be equal on all of them.
std::string Announcement(const NcclOptions& options, const NcclLibrary& nccl) {
  return absl::StrCat("NCCL ", nccl.version, ", group of ", options.size);
}

absl::Status AwaitAnnouncements(const NcclOptions& options, const std::string& mine,
                                absl::Duration deadline) {
  std::vector<int> missing;
  for (int peer = 0; peer < options.size; ++peer) {
    const absl::StatusOr<std::string> theirs =
        GetBefore(options, absl::StrCat(options.prefix, "/", peer), deadline);
    if (absl::IsDeadlineExceeded(theirs.status())) {
      missing.push_back(peer);
      continue;
    }
    RETURN_IF_ERROR(theirs.status());
    if (*theirs != mine) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", peer, " has ", *theirs, ", expected ", mine));
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::DeadlineExceededError(
      absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing, ", "),
                   " did not appear within ", absl::FormatDuration(options.timeout)));
}

absl::StatusOr<ncclUniqueId> MakeId(const NcclLibrary& nccl) {
  ncclUniqueId id;
  const ncclResult_t result = nccl.GetUniqueId(&id);
  if (result == ncclSuccess) return id;
  return absl::UnavailableError(absl::StrCat("cannot make an id: ", nccl.GetErrorString(result),
                                             ": ", nccl.GetLastError(nullptr)));
}

}  // namespace

absl::StatusOr<ncclUniqueId> AgreeOnUniqueId(const NcclOptions& options, const NcclLibrary& nccl,
                                             absl::Duration deadline) {
  if (options.size == 1) return MakeId(nccl);
  const std::string mine = Announcement(options, nccl);
  RETURN_IF_ERROR(options.store->Set(absl::StrCat(options.prefix, "/", options.rank), mine));
  // The id's listener is rank 0's: it is made only when all are there to connect to it.
  RETURN_IF_ERROR(AwaitAnnouncements(options, mine, deadline));
  const std::string key = absl::StrCat(options.prefix, "/id");
  if (options.rank == 0) {
    ASSIGN_OR_RETURN(const ncclUniqueId id, MakeId(nccl));
    RETURN_IF_ERROR(options.store->Set(key, absl::string_view(id.internal, sizeof(id.internal))));
    return id;
  }
  const absl::StatusOr<std::string> bytes = GetBefore(options, key, deadline);
  if (absl::IsDeadlineExceeded(bytes.status())) {
    return absl::DeadlineExceededError(absl::StrCat("rank 0 did not publish NCCL's id within ",
                                                    absl::FormatDuration(options.timeout)));
  }
  RETURN_IF_ERROR(bytes.status());
  ncclUniqueId id;
  if (bytes->size() != sizeof(id.internal)) {
    return absl::FailedPreconditionError(absl::StrCat("rank 0 published an id of ", bytes->size(),
                                                      " bytes, expected ", sizeof(id.internal)));
  }
  std::memcpy(id.internal, bytes->data(), sizeof(id.internal));
  return id;
}

}  // namespace stretto
