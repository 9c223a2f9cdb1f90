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

// Makes the backend. `ops` is borrowed and shared by all executors. Links use host memory.
std::unique_ptr<Backend> MakeCpuBackend(Ops& ops);

// Returns how many bytes the processes of this machine may take at present. Errors: those of reading
// /proc/meminfo and of AvailableMemory.
absl::StatusOr<int64_t> FreeMemoryOfNode();

// Returns MemAvailable, in bytes, from the text of /proc/meminfo. Errors: Internal when the text
// does not have it.
absl::StatusOr<int64_t> AvailableMemory(absl::string_view meminfo);

}  // namespace stretto
