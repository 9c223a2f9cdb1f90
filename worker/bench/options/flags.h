// SPDX-License-Identifier: Apache-2.0
#pragma once
// Parsing of flags, and checks of their values whose errors have what was found and what was
// expected.

#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace stretto::bench {

CLI::Validator Integer(int low, int high);
// `expected` describes the range: "a number from 1e-3 to 1e6".
CLI::Validator Number(double low, double high, const std::string& expected);
CLI::Validator OneOf(std::vector<std::string> names);
// `expected` describes the value: "the name of a file".
CLI::Validator NotEmpty(const std::string& expected);

// Parses `arguments` into the variables that the flags of `app` are bound to. Returns an empty
// string, or the help text if the arguments asked for it; then nothing else must be done. Errors:
// InvalidArgument, in one line.
absl::StatusOr<std::string> ParseFlags(CLI::App& app, std::vector<std::string> arguments);

// Returns the exit code of a command: 0 if ok, 2 for InvalidArgument, else 1. Prints "error: ..."
// to `err`.
int ExitCodeOf(const absl::Status& status, std::ostream& err);

}  // namespace stretto::bench
