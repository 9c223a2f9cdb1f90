#include "tests/bench/overlap/command.h"

#include <string>

#include "absl/status/status.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "tests/bench/overlap/compare.h"
#include "tests/bench/overlap/options.h"
#include "tests/bench/overlap/report.h"
#include "tests/bench/overlap/single_rank.h"

namespace stretto {
namespace {

using bench::OverlapOptions;

// The JSON, and whether everything in it holds.
struct Outcome {
  std::string json;
  std::vector<std::string> errors;
};

absl::StatusOr<Outcome> Measure(const OverlapOptions& options, const bench::Say& say) {
  ASSIGN_OR_RETURN(const auto rig, bench::Rig::Create(options));
  if (options.ranks == 1) {
    ASSIGN_OR_RETURN(const bench::SingleRank single, bench::MeasureSingleRank(options, *rig));
    return Outcome{bench::ToJson(options, single), {}};
  }
  ASSIGN_OR_RETURN(const bench::Comparison comparison, bench::Compare(options, *rig, say));
  return Outcome{bench::ToJson(options, comparison), comparison.errors};
}

}  // namespace

int OverlapCommand(const std::vector<std::string>& arguments, std::ostream& out,
                   std::ostream& err) {
  const auto fail = [&](const absl::Status& status, int code) {
    err << "error: " << status.message() << "\n";
    return code;
  };
  const absl::StatusOr<OverlapOptions> options = bench::ParseOverlapOptions(arguments);
  if (!options.ok()) return fail(options.status(), 2);
  if (!options->help.empty()) {
    out << options->help;
    return 0;
  }
  const bool speaks = options->rank == 0;
  const absl::StatusOr<Outcome> outcome = Measure(*options, [&](const std::string& line) {
    if (speaks) err << line << std::endl;
  });
  if (!outcome.ok())
    return fail(outcome.status(), absl::IsInvalidArgument(outcome.status()) ? 2 : 1);
  if (!speaks) return 0;
  out << outcome->json << "\n";
  if (!options->json.empty()) {
    const absl::Status written = WriteFileAtomic(options->json, outcome->json + "\n");
    if (!written.ok()) return fail(written, 1);
  }
  for (const std::string& error : outcome->errors) err << "error: " << error << "\n";
  return outcome->errors.empty() ? 0 : 1;
}

}  // namespace stretto
