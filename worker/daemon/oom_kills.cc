// SPDX-License-Identifier: Apache-2.0
#include "worker/daemon/oom_kills.h"

#include <utility>

#include "proto/base/files.h"
#include "proto/base/host_memory.h"

namespace stretto::daemon {

OomKills::OomKills(std::string root) : root_(std::move(root)) { Note(); }

void OomKills::Note() { noted_ = Count(); }

bool OomKills::Grew() const { return Count() > noted_; }

int64_t OomKills::Count() const {
  const std::string table = ReadFile(root_ + "/proc/vmstat").value_or("");
  return KernelField(table, "oom_kill").value_or(0);
}

}  // namespace stretto::daemon
