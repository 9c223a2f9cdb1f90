// SPDX-License-Identifier: Apache-2.0

// Prints each row, and writes the JSON again, as soon as it is measured: what a device does later
// cannot take it back. An operation that fails is a row too, and fails the command at its end.

#include "worker/bench/kernels/command.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
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

// Measures the limits, without which no row has a share of them.
absl::StatusOr<KernelsReport> MeasureLimits(const KernelsOptions& o, const EngineSpec& spec,
                                            Backend& backend) {
  KernelsReport report{.model = TitleOf(o.spec), .spec = spec};
  ASSIGN_OR_RETURN(report.copy, Time(CopyCase(spec.dtype, o.limit_size), o.timing, backend));
  ASSIGN_OR_RETURN(report.product, Time(ProductCase(spec.dtype, o.limit_size), o.timing, backend));
  return report;
}

absl::StatusOr<std::vector<KernelCase>> CasesFor(const KernelsOptions& o, const EngineSpec& spec) {
  ASSIGN_OR_RETURN(const RankPlan plan, BuildPlan(spec, 0, Variant::kComputeOnly));
  std::vector<KernelCase> cases = CasesOf(plan.program);
  std::erase_if(cases, [&](const KernelCase& each) {
    return !absl::StrContains(absl::StrCat(each.place, " ", each.operation), o.only);
  });
  if (!cases.empty()) return cases;
  return absl::InvalidArgumentError(
      absl::StrCat("--only: found '", o.only, "', expected text of an operation's row"));
}

// Returns the first failure, if there was one.
absl::Status StatusOf(const KernelsReport& report) {
  const auto failed = [](const KernelResult& result) { return !result.failed.empty(); };
  const auto first = absl::c_find_if(report.kernels, failed);
  if (first == report.kernels.end()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(absl::c_count_if(report.kernels, failed), " of ", report.kernels.size(),
                   " operations failed, the first: ", first->timed.place, ": ", first->failed));
}

absl::Status Run(const std::vector<std::string>& arguments, std::ostream& out,
                 const MachineOpener& open) {
  ASSIGN_OR_RETURN(const KernelsOptions options, ParseKernelsOptions(arguments));
  if (!options.help.empty()) {
    out << options.help;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(EngineSpec spec, SpecOf(options.spec));  // before a device is opened
  spec.library_attention = options.machine.library_attention();
  ASSIGN_OR_RETURN(std::vector<KernelCase> cases, CasesFor(options, spec));
  MachineFlags flags = options.machine;
  flags.tokens = int64_t{spec.micro_batch_size} * spec.model.sequence_length;
  ASSIGN_OR_RETURN(const Machine machine, open(flags));
  ASSIGN_OR_RETURN(KernelsReport report, MeasureLimits(options, spec, *machine.backend));
  const auto show = [&](const std::string& text) {
    out << text << std::flush;
    if (options.json.empty()) return absl::OkStatus();
    return WriteFileAtomic(options.json, ToJson(report, machine) + "\n");
  };
  RETURN_IF_ERROR(show(HeadText(report, machine)));
  for (KernelCase& next : cases) {
    KernelResult row{std::move(next)};
    const absl::StatusOr<double> seconds = TimeOf(row.timed, options.timing, *machine.backend);
    if (seconds.ok()) {
      row.seconds = *seconds;
    } else {
      row.failed = seconds.status().ToString();
    }
    report.kernels.push_back(std::move(row));
    RETURN_IF_ERROR(show(RowText(report, report.kernels.back())));
  }
  RETURN_IF_ERROR(show(TailText(report)));
  return StatusOf(report);
}

}  // namespace
}  // namespace bench

int KernelsCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                   const bench::MachineOpener& open) {
  return bench::ExitCodeOf(bench::NameFlags(bench::Run(arguments, out, open)), err);
}

}  // namespace stretto
