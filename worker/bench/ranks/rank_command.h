// SPDX-License-Identifier: Apache-2.0
#pragma once
// The frame of benchmarks that run one process per rank. Rank 0 speaks for all of them.

#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "proto/base/files.h"
#include "worker/bench/options/flags.h"
#include "worker/bench/options/rank_flags.h"

namespace stretto::bench {

// Runs measure(say) and returns the exit code of the command: 0; 1 if it failed; 2 if an argument
// was wrong. `say` prints a line for the user. On rank 0, json(result), an object, goes to `out`
// and to the file of the flags, and table(result), a text, to `err`. Options have `help` and
// `ranks`.
template <class Options, class Measure, class Json, class Table>
int RunOnRanks(const absl::StatusOr<Options>& options, const Measure& measure, const Json& json,
               const Table& table, std::ostream& out, std::ostream& err) {
  if (!options.ok()) return ExitCodeOf(options.status(), err);
  if (!options->help.empty()) {
    out << options->help;
    return 0;
  }
  const RankFlags& ranks = options->ranks;
  const auto result = measure(*options, [&](const std::string& line) {
    if (ranks.rank == 0) err << line << std::endl;
  });
  if (!result.ok()) return ExitCodeOf(result.status(), err);
  if (ranks.rank != 0) return 0;
  const std::string text = json(*options, *result).dump(2) + "\n";
  err << table(*options, *result);
  out << text;
  if (ranks.json.empty()) return 0;
  return ExitCodeOf(WriteFileAtomic(ranks.json, text), err);
}

}  // namespace stretto::bench
