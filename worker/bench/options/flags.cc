// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stretto::bench {
namespace {

CLI::Validator Checked(const std::string& expected, bool (*parse)(const std::string&, double*),
                       double low, double high) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        double value;
        if (parse(text, &value) && value >= low && value <= high) return "";
        return absl::StrCat("found ", text, ", expected ", expected);
      },
      "");
}

}  // namespace

CLI::Validator Integer(int low, int high) {
  return Checked(
      absl::StrCat("an integer from ", low, " to ", high),
      [](const std::string& text, double* value) {
        int integer;
        if (!absl::SimpleAtoi(text, &integer)) return false;
        *value = integer;
        return true;
      },
      low, high);
}

CLI::Validator Number(double low, double high, const std::string& expected) {
  return Checked(
      expected,
      [](const std::string& text, double* value) { return absl::SimpleAtod(text, value); }, low,
      high);
}

CLI::Validator OneOf(std::vector<std::string> names) {
  return CLI::Validator(
      [names = std::move(names)](std::string& text) -> std::string {
        if (std::find(names.begin(), names.end(), text) != names.end()) return "";
        return absl::StrCat("found '", text, "', expected one of ", absl::StrJoin(names, ", "));
      },
      "");
}

CLI::Validator NotEmpty(const std::string& expected) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        return text.empty() ? absl::StrCat("found nothing, expected ", expected) : "";
      },
      "");
}

absl::StatusOr<std::string> ParseFlags(CLI::App& app, std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // CLI11 wants the last one first
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::ExtrasError&) {
    return absl::InvalidArgumentError(absl::StrCat("found '", absl::StrJoin(app.remaining(), " "),
                                                   "', expected flags of `", app.get_name(),
                                                   " --help`"));
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return "";
}

int ExitCodeOf(const absl::Status& status, std::ostream& err) {
  if (status.ok()) return 0;
  err << "error: " << status.message() << "\n";
  return absl::IsInvalidArgument(status) ? 2 : 1;
}

}  // namespace stretto::bench
