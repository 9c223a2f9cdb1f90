// SPDX-License-Identifier: Apache-2.0
#include "proto/spec/job/settings.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/spec/fields.h"
#include "proto/spec/job/places.h"
#include "proto/spec/job/takers.h"

namespace stretto::spec {
namespace {

// How the work of a step is spread over ranks, and in which order it is done.
bool IsLayout(const Field& field) {
  const absl::string_view path = field.path;
  if (field.in_hash == InHash::kLayout || path == "micro_batch_size") return true;
  return absl::StartsWith(path, "schedule.") ||
         (absl::StartsWith(path, "parallelism.") && path != "parallelism.wire");
}

}  // namespace

Settings SettingsOf(const v1alpha1::JobSpec& normalized) {
  Settings settings;
  for (const Field& field : JobFields()) {
    if (field.in_hash == InHash::kNo || IsLayout(field)) continue;
    if (!Takes(field.taker, normalized).value_or(false)) continue;
    for (const Place& place : PlacesOf(normalized, field.path)) {
      // The share of the only data set is 1, whatever its weight.
      if (field.path == absl::string_view("data.blend.weight") &&
          normalized.data().blend_size() < 2) {
        continue;
      }
      if (!place.is_section()) settings[place.path] = place.text();
    }
  }
  return settings;
}

std::vector<Difference> DifferencesOf(const Settings& found, const Settings& expected) {
  std::set<std::string> paths;
  for (const Settings* settings : {&found, &expected}) {
    for (const auto& [path, value] : *settings) paths.insert(path);
  }
  const auto value = [](const Settings& settings, const std::string& path) -> std::string {
    const auto it = settings.find(path);
    if (it != settings.end()) return it->second;
    // Settings of an older release do not have a field that was added since: it had the default.
    const Field* field = FindField(path);
    return field != nullptr && field->in_hash == InHash::kAdded ? field->value : "none";
  };
  std::vector<Difference> differences;
  for (const std::string& path : paths) {
    Difference one{path, value(found, path), value(expected, path)};
    if (one.found != one.expected) differences.push_back(std::move(one));
  }
  return differences;
}

std::string TextOf(const std::vector<Difference>& differences) {
  return absl::StrJoin(differences, "; ", [](std::string* out, const Difference& one) {
    absl::StrAppend(out, one.path, ": found ", one.found, ", expected ", one.expected);
  });
}

}  // namespace stretto::spec
