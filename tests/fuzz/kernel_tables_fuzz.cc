// SPDX-License-Identifier: Apache-2.0

// The tables of the kernel that bound a process's memory. An input has up to five of them, between
// lines "%%": /proc/meminfo, /proc/self/cgroup, and limit, use and statistics of the group
// "/a/b", in both versions of control groups. Limits only bound: what is found is never more than
// the machine has.
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "proto/base/check.h"
#include "proto/base/host_memory.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using stretto::fuzz::Folder;
  static const Folder& folder = Folder::Get();
  constexpr const char* kFirst = "sys/fs/cgroup/memory/a/b";
  constexpr const char* kSecond = "sys/fs/cgroup/a/b";
  for (const char* path : {"proc/self", kFirst, kSecond})
    std::filesystem::create_directories(folder.Path(path));

  const std::vector<std::string> given =
      absl::StrSplit(stretto::fuzz::TextOf(data, size), absl::MaxSplits("\n%%\n", 4));
  std::array<std::string, 5> tables;
  for (size_t i = 0; i < given.size(); ++i) tables[i] = given[i];
  const auto& [memory, groups, limit, used, statistics] = tables;
  folder.Write("proc/meminfo", memory);
  folder.Write("proc/self/cgroup", groups);
  const auto write = [](const std::string& group, const std::string& name,
                        const std::string& text) { Folder::Get().Write(group + "/" + name, text); };
  write(kFirst, "memory.limit_in_bytes", limit);
  write(kFirst, "memory.usage_in_bytes", used);
  write(kSecond, "memory.max", limit);
  write(kSecond, "memory.current", used);
  for (const char* group : {kFirst, kSecond}) write(group, "memory.stat", statistics);

  const auto found = stretto::ReadHostMemory(folder.Path(""));
  const auto total = stretto::KernelField(memory, "MemTotal:");
  const auto available = stretto::KernelField(memory, "MemAvailable:");
  STRETTO_CHECK(found.ok() == (total.has_value() && available.has_value()));
  if (found.ok()) STRETTO_CHECK(found->total <= *total && found->available <= *available);
  return 0;
}
