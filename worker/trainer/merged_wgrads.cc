#include "worker/trainer/merged_wgrads.h"

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/control.h"
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

// With which the spec has this hash; 0: none.
int MergedOf(const std::string& spec_hash, JobConfig config) {
  for (int merged : Candidates(config)) {
    SetMergedWgrads(merged, &config);
    if (config.spec_hash == spec_hash) return merged;
  }
  return 0;
}

}  // namespace

absl::StatusOr<int> MostMergedWgrads(JobConfig config, int64_t available) {
  int most = 0;
  for (int merged : Candidates(config)) {
    SetMergedWgrads(merged, &config);
    ASSIGN_OR_RETURN(const ArenaBytes arenas, ArenasOf(config));
    const absl::Status fits = CheckMemory(arenas, config.ranks_on_node, available);
    if (!fits.ok() && most == 0) return fits;
    if (!fits.ok()) break;  // more rows take more memory
    most = merged;
  }
  return most;
}

absl::Status AgreeOnMergedWgrads(int most, const std::string& saved_hash, Communicator& control,
                                 JobConfig* config) {
  ASSIGN_OR_RETURN(const std::vector<std::string> texts, ExchangeText(control, absl::StrCat(most)));
  for (const std::string& text : texts) {
    int theirs = 0;
    STRETTO_CHECK(absl::SimpleAtoi(text, &theirs));
    most = std::min(most, theirs);
  }
  const int saved = MergedOf(saved_hash, *config);
  if (saved > most) {
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint.resume_from: found weight gradients merged over ", saved,
        " micro-batches, expected at most ", most, ", which is what fits the nodes' memory"));
  }
  SetMergedWgrads(saved > 0 ? saved : most, config);
  return absl::OkStatus();
}

}  // namespace stretto::trainer
