// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/settings_file.h"

#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/strict_json.h"

namespace stretto::trainer {

std::string SettingsText(const spec::Settings& settings) {
  return nlohmann::ordered_json(settings).dump(1) + "\n";
}

absl::StatusOr<spec::Settings> ParseSettings(absl::string_view text, const std::string& path) {
  ASSIGN_OR_RETURN(const nlohmann::json document, ParseStrictJson(text, path));
  StrictObject object(document, path);
  spec::Settings settings;
  if (!document.is_object()) object.Fail("settings", document.type_name(), "an object");
  for (const auto& [field, value] : document.items()) settings[field] = object.Text(field.c_str());
  RETURN_IF_ERROR(object.Finish());
  return settings;
}

absl::Status TakeDecaySteps(const spec::Settings& saved, JobConfig* config) {
  const auto steps = saved.find("optimizer.decay_steps");
  if (!config->decay_steps_open || steps == saved.end()) return absl::OkStatus();
  int64_t decay_steps = 0;
  if (!absl::SimpleAtoi(steps->second, &decay_steps) || decay_steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.decay_steps of the checkpoint: found \"", steps->second,
                     "\", expected a number of steps"));
  }
  config->kept_decay_steps = decay_steps;
  SetDecaySteps(decay_steps, config);
  return absl::OkStatus();
}

}  // namespace stretto::trainer
