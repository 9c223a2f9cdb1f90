// SPDX-License-Identifier: Apache-2.0
#include "coordinator/core/quota.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/base/ids.h"
#include "proto/base/printable.h"

namespace stretto::coordinator {
namespace {

absl::Status Malformed(const std::string& text, const std::string& found,
                       const std::string& expected) {
  return absl::InvalidArgumentError(
      Escaped(absl::StrCat("quota \"", text, "\": found ", found, ", expected ", expected)));
}

constexpr char kForm[] = "PROJECT:devices=N,queued=N";

}  // namespace

absl::StatusOr<Quotas> ParseQuotas(const std::vector<std::string>& texts) {
  Quotas quotas;
  for (const std::string& text : texts) {
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits(':', 1));
    const std::string& project = parts.first;
    if (!IsValidName(project)) {
      return Malformed(text, absl::StrCat("project \"", project, "\""),
                       "1 to 63 of [a-z0-9-], starting with a letter and not ending with '-'");
    }
    Quota quota;
    for (const absl::string_view limit : absl::StrSplit(parts.second, ',')) {
      const std::pair<std::string, std::string> words =
          absl::StrSplit(limit, absl::MaxSplits('=', 1));
      int64_t* value = words.first == "devices"  ? &quota.devices
                       : words.first == "queued" ? &quota.queued
                                                 : nullptr;
      if (value == nullptr) return Malformed(text, absl::StrCat("\"", limit, "\""), kForm);
      if (!absl::SimpleAtoi(words.second, value) || *value < 1) {
        return Malformed(text, absl::StrCat(words.first, " \"", words.second, "\""),
                         "a number of at least 1");
      }
    }
    if (!quotas.emplace(project, quota).second)
      return Malformed(text, "the project a second time", "one quota for each project");
  }
  return quotas;
}

absl::Status CheckQuota(const Quotas& quotas, const std::string& project, int64_t ranks,
                        int64_t waiting) {
  if (quotas.empty()) return absl::OkStatus();
  const auto found = quotas.find(project);
  if (found == quotas.end()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "project \"", project, "\" has no quota here; expected a project that has one: ",
        absl::StrJoin(quotas, ", ",
                      [](std::string* out, const auto& quota) { out->append(quota.first); })));
  }
  const Quota& quota = found->second;
  if (ranks > quota.devices) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the job needs ", ranks, ranks == 1 ? " device" : " devices", "; project \"",
                     project, "\" may use at most ", quota.devices, " at once"));
  }
  if (waiting >= quota.queued) {
    return absl::ResourceExhaustedError(
        absl::StrCat("project \"", project, "\" has ", waiting,
                     waiting == 1 ? " job that waits" : " jobs that wait", ", expected fewer than ",
                     quota.queued));
  }
  return absl::OkStatus();
}

int64_t DevicesOf(const Quotas& quotas, const std::string& project) {
  const auto found = quotas.find(project);
  return found == quotas.end() ? INT64_MAX : found->second.devices;
}

}  // namespace stretto::coordinator
