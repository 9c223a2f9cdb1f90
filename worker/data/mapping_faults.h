// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files that become shorter while they are mapped. The kernel sends SIGBUS to whoever reads a page
// that the file no longer has, which ends a process without a word about the file. Where the signal
// is caught, such a page reads as zeros, and the name of the file is kept until somebody asks.

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace stretto {

// Catches SIGBUS in mapped files from now on. Whoever calls this must ask MappingFault() before
// anything that was read is used. SIGBUS elsewhere still ends the process. Idempotent, thread-safe.
void CatchMappingFaults();

// DataLoss, which names the file, once a page of a mapped file could not be read; it remains so.
// Costs a load of an atomic. Thread-safe.
absl::Status MappingFault();

// What MappedFile calls: the bytes are those of `path` until they are forgotten. Thread-safe.
void NoteMapping(const void* data, size_t size, const std::string& path);
void ForgetMapping(const void* data);

}  // namespace stretto
