// SPDX-License-Identifier: Apache-2.0
#include "proto/commands/ranges.h"

#include <CLI/CLI.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace stretto {

CLI::Validator Integer(int64_t low, int64_t high) {
  const bool open = high == INT32_MAX || high == INT64_MAX;
  const std::string range =
      open ? absl::StrCat("of at least ", low) : absl::StrCat("from ", low, " to ", high);
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        int64_t value = 0;
        const bool is_integer = absl::SimpleAtoi(text, &value);
        if (is_integer && value >= low && value <= high) return "";
        // Of a number that is too large for the type, the bound matters after all.
        const bool too_large = open && is_integer && value > high;
        return absl::StrCat("found ", text, ", expected an integer ",
                            too_large ? absl::StrCat("of at most ", high) : range);
      },
      "");
}

CLI::Validator Number(double low, double high, const std::string& expected) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double value = 0;
        if (absl::SimpleAtod(text, &value) && value >= low && value <= high) return "";
        return absl::StrCat("found ", text, ", expected ", expected);
      },
      "");
}

CLI::Validator Number(double low, double high) {
  return Number(low, high, absl::StrCat("a number from ", low, " to ", high))
      .description(absl::StrCat(low, " to ", high));
}

}  // namespace stretto
