// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/overlap/command.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/overlap_options.h"
#include "worker/bench/overlap/compare.h"
#include "worker/bench/overlap/emulated_report.h"
#include "worker/bench/overlap/report.h"
#include "worker/bench/overlap/single_rank.h"

namespace stretto {
namespace {

using bench::OverlapOptions;

// The JSON, and the errors in it.
struct Outcome {
  std::string json;
  std::vector<std::string> errors;
};

// Writes the JSON to the file of --json; null where there is none, or another rank reports.
using KeepJson = std::function<absl::Status(const std::string&)>;

// Makes one comparison per link, in sequence.
absl::StatusOr<Outcome> MeasureEmulated(const OverlapOptions& options, bench::Machine& machine,
                                        bench::Rig& rig, const bench::Say& say,
                                        const KeepJson& keep) {
  bench::EmulatedReport report;
  std::vector<std::string> errors;
  for (const EmulatedLinkOptions& link : options.Links()) {
    const std::string title = bench::Describe(link);
    RETURN_IF_ERROR(rig.Emulate(link));
    bench::Keep keep_link;
    if (keep) {
      keep_link = [&](const bench::Comparison& so_far) {
        bench::EmulatedReport all = report;
        all.push_back({link, so_far});
        return keep(bench::ToJson(options, all, machine));
      };
    }
    ASSIGN_OR_RETURN(bench::Comparison comparison, bench::Compare(options, rig, say, keep_link));
    say(absl::StrCat(title, "\n", bench::ToText(comparison)));
    for (const std::string& error : comparison.errors) {
      errors.push_back(absl::StrCat(title, ": ", error));
    }
    report.push_back({link, std::move(comparison)});
  }
  return Outcome{bench::ToJson(options, report, machine), std::move(errors)};
}

absl::StatusOr<Outcome> Measure(const OverlapOptions& options, bench::Machine& machine,
                                const bench::Say& say, const KeepJson& keep) {
  ASSIGN_OR_RETURN(const auto rig, bench::Rig::Create(options, machine));
  if (options.emulated()) return MeasureEmulated(options, machine, *rig, say, keep);
  if (options.ranks == 1) {
    ASSIGN_OR_RETURN(const bench::SingleRank single, bench::MeasureSingleRank(options, *rig));
    return Outcome{bench::ToJson(options, single), {}};
  }
  bench::Keep keep_comparison;
  if (keep) {
    keep_comparison = [&](const bench::Comparison& so_far) {
      return keep(bench::ToJson(options, so_far));
    };
  }
  ASSIGN_OR_RETURN(const bench::Comparison comparison,
                   bench::Compare(options, *rig, say, keep_comparison));
  return Outcome{bench::ToJson(options, comparison), comparison.errors};
}

}  // namespace

int OverlapCommand(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err,
                   const bench::MachineOpener& open) {
  const absl::StatusOr<OverlapOptions> options = bench::ParseOverlapOptions(arguments);
  if (!options.ok()) return bench::ExitCodeOf(options.status(), err);
  if (!options->help.empty()) {
    out << options->help;
    return 0;
  }
  absl::StatusOr<bench::Machine> machine = open(options->machine);
  if (!machine.ok()) return bench::ExitCodeOf(machine.status(), err);
  const bool speaks = options->rank == 0 || options->emulated();
  const auto say = [&](const std::string& line) {
    if (speaks) err << line << std::endl;
  };
  KeepJson keep;
  if (speaks && !options->json.empty())
    keep = [&](const std::string& json) { return WriteFileAtomic(options->json, json + "\n"); };
  const absl::StatusOr<Outcome> outcome = Measure(*options, *machine, say, keep);
  if (!outcome.ok()) return bench::ExitCodeOf(outcome.status(), err);
  if (!speaks) return 0;
  out << outcome->json << "\n";
  const absl::Status kept = keep ? keep(outcome->json) : absl::OkStatus();
  if (!kept.ok()) return bench::ExitCodeOf(kept, err);
  for (const std::string& error : outcome->errors) err << "error: " << error << "\n";
  return outcome->errors.empty() ? 0 : 1;
}

}  // namespace stretto
