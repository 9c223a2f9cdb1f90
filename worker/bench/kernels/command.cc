// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/kernels/command.h"

#include <CLI/CLI.hpp>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/bench/common/flags.h"
#include "worker/bench/common/spec_flags.h"
#include "worker/bench/kernels/epilogues.h"
#include "worker/bench/kernels/measure.h"
#include "worker/bench/kernels/report.h"
#include "worker/engine/schedule/plan.h"

namespace stretto {
namespace bench {
namespace {

constexpr char kSummary[] =
    "Times every operation of a model's step in each of its shapes, except collectives, and\n"
    "reports the share that it reaches of the rate of a plain copy or product on the device.";

struct KernelsOptions {
  std::string help, json, only;
  SpecFlags spec = {.tp = 1};
  MachineFlags machine;
  KernelTiming timing;
  int working_set_mib = 256;
  bool epilogues = false;
  int limit_size = 0;  // of the limits' matrices; 0: by the device
};

absl::StatusOr<KernelsOptions> Parse(const std::vector<std::string>& arguments) {
  KernelsOptions o;
  CLI::App app{kSummary, "stretto-bench kernels"};
  app.footer(
      "Example: stretto-bench kernels --device cuda --model llama2-7b --micro-batch 2 "
      "--dtype bf16");
  AddSpecFlags(app, o.spec);
  AddMachineFlags(app, o.machine);
  const auto count = [&](const char* flag, int& value, int low, const char* help) {
    app.add_option(flag, value, help)->check(Integer(low, 1 << 20))->capture_default_str();
  };
  app.add_option("--only", o.only, "text that a row must contain (default: all rows)");
  count("--repeats", o.timing.repeats, 1, "number of timed runs, of which a time is the median");
  count("--warm-up", o.timing.warm_up, 0, "number of runs before the timed ones");
  count("--working-set-mib", o.working_set_mib, 1, "memory of all copies of an operation in MiB");
  count("--limit-size", o.limit_size, 0,
        "rows and columns of the matrices for the limits; 0: 8192 on a GPU, 2048 on a CPU");
  app.add_flag(
      "--epilogues", o.epilogues,
      "also time cuBLASLt's fused epilogues, which steps do not use, against the calls that "
      "they could replace");
  app.add_option("--json", o.json, "file for a copy of the result as JSON");
  ASSIGN_OR_RETURN(o.help, ParseFlags(app, arguments));
  o.timing.working_set = int64_t{o.working_set_mib} << 20;
  if (o.limit_size == 0) o.limit_size = o.machine.device == "cpu" ? 2048 : 8192;
  return o;
}

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
  ASSIGN_OR_RETURN(const KernelsOptions options, Parse(arguments));
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
