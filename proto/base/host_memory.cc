// SPDX-License-Identifier: Apache-2.0

// /proc/self/cgroup has a line for each hierarchy: "4:cpu,memory:/a/b" in version 1, "0::/a/b" in
// version 2. In a container of version 1 the path can be the one outside, of which the container
// sees the last folder alone, mounted at the root of the hierarchy. So each folder from the path up
// to that root is looked at, and what does not exist bounds nothing.

#include "proto/base/host_memory.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "proto/base/units.h"

namespace stretto {
namespace {

// Where a version keeps its hierarchy and what it calls its files and the field of memory.stat with
// the file pages that were not used of late, which the kernel gives back first.
struct Version {
  absl::string_view folder, limit, used, inactive;
};
constexpr Version kVersion1 = {"/sys/fs/cgroup/memory", "/memory.limit_in_bytes",
                               "/memory.usage_in_bytes", "total_inactive_file"};
constexpr Version kVersion2 = {"/sys/fs/cgroup", "/memory.max", "/memory.current", "inactive_file"};

std::optional<int64_t> NumberIn(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  int64_t value = 0;
  // "max" is no number, and no limit.
  if (!text.ok() || !absl::SimpleAtoi(*text, &value) || value < 0) return std::nullopt;
  return value;
}

void Bound(const std::string& folder, const Version& version, HostMemory* memory) {
  const std::optional<int64_t> limit = NumberIn(absl::StrCat(folder, version.limit));
  if (!limit.has_value()) return;
  memory->total = std::min(memory->total, *limit);
  const int64_t used = NumberIn(absl::StrCat(folder, version.used)).value_or(0);
  const absl::StatusOr<std::string> table = ReadFile(absl::StrCat(folder, "/memory.stat"));
  const int64_t inactive = table.ok() ? KernelField(*table, version.inactive).value_or(0) : 0;
  const int64_t held = std::max<int64_t>(0, used - inactive);
  memory->available = std::min(memory->available, std::max<int64_t>(0, *limit - held));
}

}  // namespace

std::optional<int64_t> KernelField(absl::string_view table, absl::string_view name) {
  for (absl::string_view line : absl::StrSplit(table, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t value = 0;
    if (words.size() < 2 || words[0] != name || !absl::SimpleAtoi(words[1], &value)) continue;
    if (value < 0) continue;
    if (words.size() == 2) return value;
    if (words.size() == 3 && words[2] == "kB" && value <= INT64_MAX / kKiB) return value * kKiB;
  }
  return std::nullopt;
}

absl::StatusOr<HostMemory> ReadHostMemory(const std::string& root) {
  ASSIGN_OR_RETURN(const std::string table, ReadFile(absl::StrCat(root, "/proc/meminfo")));
  HostMemory memory;
  for (auto [name, value] :
       {std::pair{"MemTotal:", &memory.total}, std::pair{"MemAvailable:", &memory.available}}) {
    const std::optional<int64_t> found = KernelField(table, name);
    if (!found.has_value()) {
      return absl::InternalError(
          absl::StrCat("/proc/meminfo: found no line '", name, " N kB', expected one"));
    }
    *value = *found;
  }
  const std::string groups = ReadFile(absl::StrCat(root, "/proc/self/cgroup")).value_or("");
  for (absl::string_view line : absl::StrSplit(groups, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<absl::string_view> controllers = absl::StrSplit(parts[1], ',');
    const bool second = parts[1].empty();
    if (!second && std::find(controllers.begin(), controllers.end(), "memory") == controllers.end())
      continue;
    const Version& version = second ? kVersion2 : kVersion1;
    std::string path(absl::StripSuffix(parts[2], "/"));
    for (;;) {
      Bound(absl::StrCat(root, version.folder, path), version, &memory);
      if (path.empty()) break;
      path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
  return memory;
}

}  // namespace stretto
