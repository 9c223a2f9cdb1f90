// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory that this process may use: that of the machine, or less where a control group bounds
// it, as in a container.

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto {

struct HostMemory {
  int64_t total = 0;      // bytes that may be in use at most
  int64_t available = 0;  // bytes that may be taken at present, without swapping
};

// Reads the tables of the kernel and the limits of the control group of this process and of those
// above it (version 1 and 2). A group that is not visible, or without a limit, bounds nothing.
// `root` is the folder that has proc and sys. Errors: those of ReadFile for /proc/meminfo; Internal
// if it lacks MemTotal or MemAvailable.
absl::StatusOr<HostMemory> ReadHostMemory(const std::string& root = "");

// Returns the number after `name` in a table of the kernel: "name number" or "name: number kB", in
// bytes.
std::optional<int64_t> KernelField(absl::string_view table, absl::string_view name);

}  // namespace stretto
