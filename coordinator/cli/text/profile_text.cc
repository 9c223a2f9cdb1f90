// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/text/profile_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "coordinator/cli/text/figures.h"
#include "coordinator/cli/text/spec_text.h"
#include "coordinator/cli/text/table.h"
#include "proto/base/printable.h"
#include "proto/base/spread.h"

namespace stretto::cli {

std::string Disturbance(const v1alpha1::Profile& profile) {
  std::vector<std::string> reasons;
  if (profile.spread() > kMostSpread)
    reasons.push_back(absl::StrCat("repetitions ", Percent(profile.spread()), " apart"));
  if (profile.preempted_share() > kMostPreempted)
    reasons.push_back(absl::StrCat(Percent(profile.preempted_share()), " without a CPU"));
  return absl::StrJoin(reasons, ", ");
}

std::string ProfileTable(const v1alpha1::Job& job) {
  const v1alpha1::Profile& profile = job.profile();
  const v1alpha1::Ledger& ledger = job.progress().ledger();
  const std::string disturbance = Disturbance(profile);
  const auto row = [](const char* name, double seconds, const char* meaning) {
    return std::vector<std::string>{name, absl::StrFormat("%.4f", seconds), meaning};
  };
  std::vector<std::vector<std::string>> rows = {
      row("t_comp", profile.t_comp(), "megatron_sync without its collectives"),
      row("t_comm", profile.t_comm(), "its collectives alone"),
      row("t_serial", profile.t_serial(), "this slicing, nothing overlapped"),
      row("t_ideal", profile.t_ideal_step(),
          disturbance.empty() ? "bound for every schedule" : "no bound"),
  };
  std::string note;
  if (ledger.steps() > 0) {
    const double step = ledger.wall_seconds() / static_cast<double>(ledger.steps());
    rows.push_back(row("t_overlap", step, "mean step of this run"));
    if (profile.t_ideal_step() > 0)
      note = absl::StrFormat("step is %.2f x ideal\n", step / profile.t_ideal_step());
  }
  if (!disturbance.empty()) note = absl::StrCat("disturbed profile: ", disturbance, ", no bound\n");
  const std::string parity = profile.verified_parity()
                                 ? absl::StrCat("parity verified: ", profile.parity_message())
                                 : absl::StrCat("PARITY NOT VERIFIED: ", profile.parity_message());
  return absl::StrCat(Table({"PROFILE", ">SECONDS", "MEANING"}, rows), note, Escaped(parity), "\n",
                      "link: ", LinkText(job.spec()), "\n");
}

}  // namespace stretto::cli
