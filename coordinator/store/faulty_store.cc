// SPDX-License-Identifier: Apache-2.0
#include "absl/strings/str_cat.h"
#include "coordinator/store/job_store.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {

void FaultyStore::FailCommit(int64_t n, Fault fault) {
  until_fault_ = n;
  fault_ = fault;
}

absl::Status FaultyStore::Commit(const std::vector<Record>& records) {
  if (refuse_all_) return absl::ResourceExhaustedError("fault injected: disk full");
  const bool faulty = fault_ != Fault::kNone && --until_fault_ == 0;
  const Fault fault = faulty ? fault_ : Fault::kNone;
  if (faulty) fault_ = Fault::kNone;
  if (fault != Fault::kRefused) {
    RETURN_IF_ERROR(store_.Commit(records));
    ++commits_;
  }
  if (fault == Fault::kNone) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("commit of ", records.size(), " records: fault injected, ",
                   fault == Fault::kRefused ? "nothing stored" : "stored, response lost"));
}

}  // namespace stretto::coordinator
