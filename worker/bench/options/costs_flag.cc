// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/costs_flag.h"

#include <CLI/CLI.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "worker/bench/options/flags.h"

namespace stretto::bench {

void AddCostsFlag(CLI::App& app, std::string& file) {
  app.add_option("--costs", file,
                 "file of `stretto-bench calibrate`, from which steps are predicted (default: "
                 "nothing is predicted)")
      ->check(NotEmpty("the name of a file"));
}

absl::StatusOr<std::optional<CostProfile>> ReadCosts(const std::string& file) {
  if (file.empty()) return std::nullopt;
  const auto error = [&](absl::string_view message) {
    return absl::InvalidArgumentError(absl::StrCat("--costs ", file, ": ", message));
  };
  const absl::StatusOr<std::string> text = ReadFile(file);
  if (!text.ok()) return error(text.status().message());
  absl::StatusOr<CostProfile> profile = ParseCostProfile(*text);
  if (!profile.ok()) return error(profile.status().message());
  if (!profile->has_link()) return error("found no link, expected the costs of two ranks or more");
  return std::optional(*std::move(profile));
}

}  // namespace stretto::bench
