// SPDX-License-Identifier: Apache-2.0
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
  ASSIGN_OR_RETURN(const StepMeasurement measured, MeasureStep(options, machine));
  out << ToText(options, measured, machine);
  if (options.json.empty()) return absl::OkStatus();
  return WriteFileAtomic(options.json, ToJson(options, measured, machine) + "\n");
}

}  // namespace
}  // namespace bench

int StepCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                const bench::MachineOpener& open) {
  return bench::ExitCodeOf(bench::NameFlags(bench::Run(arguments, out, open)), err);
}

}  // namespace stretto
