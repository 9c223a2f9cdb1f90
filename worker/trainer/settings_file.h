// SPDX-License-Identifier: Apache-2.0
#pragma once
// The settings that decide the numbers of a run, kept in its checkpoints. A job that resumes takes
// over what its spec leaves open, and names what differs.
//   {"optimizer.decay_steps": "150", "seed": "1234", ...}

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/spec/job/settings.h"
#include "worker/trainer/job_config.h"

namespace stretto::trainer {

// The text of attachment kSettingsName.
std::string SettingsText(const spec::Settings& settings);
// `path` names the text in errors. Errors: InvalidArgument (no JSON object of texts).
absl::StatusOr<spec::Settings> ParseSettings(absl::string_view text, const std::string& path);

// Sets optimizer.decay_steps, and everything that depends on it, to that of the checkpoint, if the
// spec leaves it open. `saved` is empty for a checkpoint of a release that kept no settings.
// Errors: InvalidArgument (no number of steps).
absl::Status TakeDecaySteps(const spec::Settings& saved, JobConfig* config);

}  // namespace stretto::trainer
