// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the flags of all commands share: how they are parsed, and checks that say what was found and
// what was expected.

#include <CLI/CLI.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stretto::bench {

CLI::Validator Integer(int low, int high);
// `expected` in words: "a number above 0".
CLI::Validator Number(double low, double high, const std::string& expected);
CLI::Validator OneOf(std::vector<std::string> names);

// Sets what the flags of `app` are bound to. Empty, or the help text where that was asked for: then
// nothing else is to be done. InvalidArgument, in one line.
absl::StatusOr<std::string> ParseFlags(CLI::App& app, std::vector<std::string> arguments);

// What a command returns: 0; 2 for InvalidArgument, else 1, with "error: ..." on `err`.
int ExitCodeOf(const absl::Status& status, std::ostream& err);

}  // namespace stretto::bench
