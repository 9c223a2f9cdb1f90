// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether the kernel has ended a process because memory ran out. A process that it ends gets
// SIGKILL, as from anybody else, and nothing says why but the kernel's counts.

#include <cstdint>
#include <string>

namespace stretto::daemon {

// The machine's count, in /proc/vmstat, which has those of containers and other control groups too.
// Not thread-safe.
class OomKills {
 public:
  // Notes the count. `root` is the folder that has proc.
  explicit OomKills(std::string root = "");

  // Notes the count again, so that older ones do not matter.
  void Note();
  // Whether it has grown since it was noted last. False where the kernel does not count (< 4.13).
  bool Grew() const;

 private:
  int64_t Count() const;

  const std::string root_;
  int64_t noted_ = 0;
};

}  // namespace stretto::daemon
