// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/kernels/command.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/bench/kernels/epilogues.h"
#include "worker/bench/kernels/measure.h"
#include "worker/bench/kernels/report.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/kernels_options.h"
#include "worker/bench/options/spec_flags.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {
namespace bench {
namespace {

absl::StatusOr<KernelResult> Time(KernelCase timed, const KernelTiming& timing, Backend& backend) {
  ASSIGN_OR_RETURN(const double seconds, TimeOf(timed, timing, backend));
  return KernelResult{std::move(timed), seconds};
}

absl::StatusOr<KernelsReport> Measure(const KernelsOptions& o, const Machine& machine) {
  Backend& backend = *machine.backend;
  ASSIGN_OR_RETURN(const EngineSpec spec, SpecOf(o.spec));
  ASSIGN_OR_RETURN(const RankPlan plan, BuildPlan(spec, 0, Variant::kComputeOnly));
  KernelsReport report{.model = TitleOf(o.spec), .spec = spec};
  ASSIGN_OR_RETURN(report.copy, Time(CopyCase(spec.dtype, o.limit_size), o.timing, backend));
  ASSIGN_OR_RETURN(report.product, Time(ProductCase(spec.dtype, o.limit_size), o.timing, backend));
  for (KernelCase& next : CasesOf(plan.program)) {
    const std::string row = absl::StrCat(next.place, " ", next.operation);
    if (!absl::StrContains(row, o.only)) continue;
    ASSIGN_OR_RETURN(KernelResult result, Time(std::move(next), o.timing, backend));
    report.kernels.push_back(std::move(result));
  }
  if (report.kernels.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--only: found '", o.only, "', expected text of an operation's row"));
  }
  if (o.epilogues) {
    ASSIGN_OR_RETURN(report.epilogues, TimeEpilogues(report.kernels, machine));
  }
  return report;
}

absl::Status Run(const std::vector<std::string>& arguments, std::ostream& out,
                 const MachineOpener& open) {
  ASSIGN_OR_RETURN(const KernelsOptions options, ParseKernelsOptions(arguments));
  if (!options.help.empty()) {
    out << options.help;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(SpecOf(options.spec).status());  // checked before a device is opened
  ASSIGN_OR_RETURN(const Machine machine, open(options.machine));
  ASSIGN_OR_RETURN(const KernelsReport report, Measure(options, machine));
  out << ToText(report, machine);
  if (options.json.empty()) return absl::OkStatus();
  return WriteFileAtomic(options.json, ToJson(report, machine) + "\n");
}

}  // namespace
}  // namespace bench

int KernelsCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                   const bench::MachineOpener& open) {
  return bench::ExitCodeOf(bench::NameFlags(bench::Run(arguments, out, open)), err);
}

}  // namespace stretto
