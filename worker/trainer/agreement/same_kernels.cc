// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/same_kernels.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/agreement/control.h"

namespace stretto::trainer {

absl::Status CheckSameKernels(const std::string& mine, Communicator& control) {
  ASSIGN_OR_RETURN(const std::vector<std::string> kernels, ExchangeText(control, mine));
  std::map<std::string, std::vector<size_t>> ranks_with;
  for (size_t rank = 0; rank < kernels.size(); ++rank) ranks_with[kernels[rank]].push_back(rank);
  if (ranks_with.size() == 1) return absl::OkStatus();
  const auto describe = [](std::string* text, const auto& found) {
    const bool one = found.second.size() == 1;
    absl::StrAppend(text, found.first, one ? " on rank " : " on ranks ",
                    absl::StrJoin(found.second, ", "));
  };
  return absl::UnimplementedError(
      absl::StrCat("kernels: found ", absl::StrJoin(ranks_with, " and ", describe),
                   ", expected the same on every rank: parameters that all ranks hold would drift "
                   "apart. DNNL_MAX_CPU_ISA=AVX2 in the environment of the worker daemons makes "
                   "CPUs alike"));
}

}  // namespace stretto::trainer
