// SPDX-License-Identifier: Apache-2.0

// Prints a line after each step and writes the JSON again after each that counts, so that a run
// which ends early leaves the figures of the steps before.

#include "worker/bench/step/command.h"

#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/spec_flags.h"
#include "worker/bench/step/report.h"

namespace stretto {
namespace bench {
namespace {

absl::Status Run(const std::vector<std::string>& arguments, std::ostream& out,
                 const MachineOpener& open) {
  ASSIGN_OR_RETURN(const StepOptions options, ParseStepOptions(arguments));
  if (!options.help.empty()) {
    out << options.help;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const Machine machine, open(options.machine));
  const auto show = [&](const StepMeasurement& measured) {
    out << StepText(measured) << std::flush;
    if (options.json.empty() || measured.step_seconds.empty()) return absl::OkStatus();
    return WriteFileAtomic(options.json, ToJson(options, measured, machine) + "\n");
  };
  ASSIGN_OR_RETURN(const StepMeasurement measured, MeasureStep(options, machine, show));
  out << "\n" << ToText(options, measured, machine);
  return absl::OkStatus();
}

}  // namespace
}  // namespace bench

int StepCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                const bench::MachineOpener& open) {
  return bench::ExitCodeOf(bench::NameFlags(bench::Run(arguments, out, open)), err);
}

}  // namespace stretto
