// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/ledger_check.h"

#include <cuda_runtime.h>

#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/exec/backend_cuda/cuda_status.h"

namespace stretto::cuda {

absl::StatusOr<std::unique_ptr<LedgerCheck>> LedgerCheck::Create(
    const std::string& library, const std::vector<Lane>& lanes,
    std::function<void(const std::string&)> say) {
  ASSIGN_OR_RETURN(std::unique_ptr<CuptiTrace> trace, CuptiTrace::Open(library));
  std::unique_ptr<LedgerCheck> check(new LedgerCheck(std::move(trace), std::move(say)));
  for (const Lane& lane : lanes) {
    ASSIGN_OR_RETURN(const uint32_t stream, check->trace_->IdOf(lane.stream));
    check->lanes_.push_back(
        {.name = lane.name, .stream = stream, .communicates = lane.communicates, .segments = {}});
  }
  return check;
}

LedgerCheck::LedgerCheck(std::unique_ptr<CuptiTrace> trace,
                         std::function<void(const std::string&)> say)
    : trace_(std::move(trace)), say_(std::move(say)) {}

absl::Status LedgerCheck::Begin() { return trace_->Start(); }

absl::Status LedgerCheck::End(std::vector<std::vector<Interval>> segments) {
  // The step is complete, but CUPTI finishes its records only in a call that synchronizes.
  RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  ASSIGN_OR_RETURN(const std::vector<DeviceActivity> activities, trace_->Stop());
  for (size_t lane = 0; lane < lanes_.size(); ++lane)
    lanes_[lane].segments = std::move(segments[lane]);
  const LedgerComparison comparison = CompareWithLedger(activities, lanes_);
  const std::string line = absl::StrCat("ledger against CUPTI's ", activities.size(),
                                        " activities: ", comparison.Describe());
  say_(line);
  return comparison.agrees ? absl::OkStatus() : absl::InternalError(line);
}

void LedgerCheck::PrintToStandardError(const std::string& line) {
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace stretto::cuda
