// SPDX-License-Identifier: Apache-2.0
#pragma once
// The cores and the memory of this machine as a backend.

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/engine/exec/backend.h"

namespace stretto {

class Ops;

// `ops` is borrowed and used by all executors. Links are by host memory.
std::unique_ptr<Backend> MakeCpuBackend(Ops& ops);

// MemAvailable in the text of /proc/meminfo, in bytes. Internal: it is not there.
absl::StatusOr<int64_t> AvailableMemory(absl::string_view meminfo);

}  // namespace stretto
