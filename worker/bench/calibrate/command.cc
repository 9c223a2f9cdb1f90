// SPDX-License-Identifier: Apache-2.0

// The work and the ranks are those of another command and have its flags, so that both have the
// same operations.

#include "worker/bench/calibrate/command.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/bench/calibrate/measure.h"
#include "worker/bench/calibrate/settle.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/overlap_options.h"
#include "worker/bench/options/pipeline_options.h"
#include "worker/bench/overlap/choices.h"
#include "worker/bench/overlap/plans.h"
#include "worker/trainer/plan/engine_spec.h"

namespace stretto {
namespace {

using bench::OverlapOptions;
using bench::PipelineOptions;
using bench::RankFlags;

constexpr char kUsage[] =
    "usage: stretto-bench calibrate FILE overlap|pipeline [FLAGS OF THAT COMMAND]\n\n"
    "Measures what the programs of that command consist of and writes FILE, which --costs of\n"
    "overlap, pipeline and sim reads: seconds of every operation alone, latency and bandwidth of\n"
    "the link, and how much computations and collectives slow each other down. Each is measured\n"
    "by programs of that operation, or of a pair, and by none that the command compares. Start it\n"
    "once for each rank, as that command; rank 0 writes FILE. Repeats that do not settle within\n"
    "10 % are refused.\n\n"
    "Example, in two terminals:\n"
    "  stretto-bench calibrate costs.txt overlap --rendezvous /tmp/empty-folder --rank 0\n"
    "  stretto-bench calibrate costs.txt overlap --rendezvous /tmp/empty-folder --rank 1\n";

struct Work {
  RankFlags ranks;
  std::vector<EngineSpec> specs = {};
};

absl::StatusOr<Work> WorkOf(const OverlapOptions& options) {
  if (options.emulated()) {
    return absl::InvalidArgumentError(absl::StrCat("--device: found ", options.machine.device,
                                                   ", expected cpu, whose link is real"));
  }
  if (options.ranks == 1) {
    return absl::InvalidArgumentError(
        "--ranks: found 1, expected at least 2, between which the link is measured");
  }
  Work work{.ranks = {.rank = options.rank,
                      .rendezvous = options.rendezvous,
                      .address = options.address}};
  work.specs.push_back(options.Unsliced());
  for (const std::string& schedule : bench::SchedulesOf(options)) {
    for (bench::Choice& choice : bench::ChoicesOf(options, schedule)) {
      // Each spec comes once per plan.
      if (!choice.plan.empty() && choice.plan != bench::PlansOf(options).front()) continue;
      if (trainer::Validate(choice.spec).ok()) work.specs.push_back(std::move(choice.spec));
    }
  }
  return work;
}

absl::StatusOr<Work> WorkOf(const PipelineOptions& options) {
  return Work{.ranks = options.ranks, .specs = bench::MostChunksFirst(options.specs)};
}

// Before minutes of measuring.
absl::Status ExpectPlace(const std::string& file) {
  std::error_code ignored;
  const std::filesystem::path path = file, folder = path.parent_path();
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat("FILE: found the folder ", file, ", expected the name of a file to write"));
  }
  if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
    return absl::InvalidArgumentError(absl::StrCat("FILE: found ", file, " in ", folder.string(),
                                                   ", which is no folder, expected one that is"));
  }
  return absl::OkStatus();
}

template <class Options>
absl::Status Calibrate(const std::string& file, const absl::StatusOr<Options>& options,
                       std::ostream& out, std::ostream& err) {
  RETURN_IF_ERROR(options.status());
  if (!options->help.empty()) {
    out << options->help;
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(ExpectPlace(file));
  ASSIGN_OR_RETURN(const Work work, WorkOf(*options));
  const bool speaks = work.ranks.rank == 0;
  ASSIGN_OR_RETURN(const CostProfile profile,
                   bench::MeasureCosts(work.specs, work.ranks, [&](const std::string& line) {
                     if (speaks) err << line << std::endl;
                   }));
  return speaks ? WriteFileAtomic(file, Print(profile)) : absl::OkStatus();
}

absl::Status Run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    out << kUsage;
    return absl::OkStatus();
  }
  if (arguments.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "found ", arguments.size(), " arguments, expected FILE and overlap or pipeline"));
  }
  const std::vector<std::string> flags(arguments.begin() + 2, arguments.end());
  if (arguments[1] == "overlap")
    return Calibrate(arguments[0], bench::ParseOverlapOptions(flags), out, err);
  if (arguments[1] == "pipeline")
    return Calibrate(arguments[0], bench::ParsePipelineOptions(flags), out, err);
  return absl::InvalidArgumentError(
      absl::StrCat("found command '", arguments[1], "', expected overlap or pipeline"));
}

}  // namespace

int CalibrateCommand(const std::vector<std::string>& arguments, std::ostream& out,
                     std::ostream& err) {
  const absl::Status status = Run(arguments, out, err);
  const int code = bench::ExitCodeOf(status, err);
  return bench::IsUnsettled(status) ? 3 : code;
}

}  // namespace stretto
