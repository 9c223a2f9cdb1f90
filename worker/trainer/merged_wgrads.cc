// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/merged_wgrads.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/agreement/control.h"
#include "worker/trainer/memory_check.h"

namespace stretto::trainer {
namespace {

std::vector<int> Candidates(const JobConfig& config) {
  std::vector<int> divisors;
  for (int merged = 1; merged <= config.engine.micro_batches; ++merged) {
    if (config.engine.micro_batches % merged == 0) divisors.push_back(merged);
  }
  return divisors;
}

// Returns the number with which the spec has this hash; 0: none. The hash is all that a checkpoint
// has of the number.
int MergedOf(const std::string& spec_hash, JobConfig config) {
  for (int merged : Candidates(config)) {
    SetMergedWgrads(merged, &config);
    if (config.spec_hash == spec_hash) return merged;
  }
  return 0;
}

}  // namespace

absl::StatusOr<int> MostMergedWgrads(JobConfig config, int64_t available) {
  const std::vector<int> candidates = Candidates(config);
  size_t fit = 0, fit_not = candidates.size();  // candidates before `fit` fit, from `fit_not` none
  while (fit < fit_not) {
    const size_t middle = (fit + fit_not) / 2;
    SetMergedWgrads(candidates[middle], &config);
    const absl::Status fits = CheckMemory(config, available);
    if (!absl::IsResourceExhausted(fits)) RETURN_IF_ERROR(fits);
    if (!fits.ok() && middle == 0) return fits;
    (fits.ok() ? fit : fit_not) = fits.ok() ? middle + 1 : middle;
  }
  return candidates[fit - 1];
}

absl::Status AgreeOnMergedWgrads(int most, const std::string& saved_hash, Communicator& control,
                                 JobConfig* config) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, ExchangeText(control, absl::StrCat(most)));
  const std::vector<int> candidates = Candidates(*config);
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    int theirs = 0;
    if (!absl::SimpleAtoi(texts[rank], &theirs) ||
        !std::binary_search(candidates.begin(), candidates.end(), theirs)) {
      return absl::InternalError(
          absl::StrCat("rank ", rank, ": found weight gradients merged over '", texts[rank],
                       "' micro-batches, expected a divisor of ", config->engine.micro_batches));
    }
    most = std::min(most, theirs);
  }
  const int saved = MergedOf(saved_hash, *config);
  // Another number is another layout: the run then does not continue bit by bit.
  SetMergedWgrads(saved > 0 && saved <= most ? saved : most, config);
  return absl::OkStatus();
}

}  // namespace stretto::trainer
