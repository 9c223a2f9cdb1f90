// SPDX-License-Identifier: Apache-2.0
#pragma once
// The settings that decide the results of a run, by name, so that a refused resume can say which
// one differs. MathHashOf decides whether any does.

#include <map>
#include <string>
#include <vector>

#include "stretto/v1alpha1/job.pb.h"

namespace stretto::spec {

// From the path of a field, with indices of repeated sections, to its value as text.
using Settings = std::map<std::string, std::string>;

// Returns the fields whose values MathHashOf takes, of a spec that Normalize has returned.
Settings SettingsOf(const v1alpha1::JobSpec& normalized);

struct Difference {
  std::string path, found, expected;  // "none" for a field that only the other one has
};
// In the order of the paths.
std::vector<Difference> DifferencesOf(const Settings& found, const Settings& expected);

// "seed: found 1, expected 2; ..."
std::string TextOf(const std::vector<Difference>& differences);

}  // namespace stretto::spec
