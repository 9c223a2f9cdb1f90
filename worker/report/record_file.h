// SPDX-License-Identifier: Apache-2.0
#pragma once
// The framing of files of messages: u32 length, u32 CRC-32C of the message, the message. One writer
// appends; readers may read at the same time.

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto {

inline constexpr int64_t kRecordHeaderBytes = 8;
inline constexpr int64_t kMaxRecordBytes = int64_t{16} << 20;  // of a message

// Appends the framed message to `out`. The message must not be empty and has at most
// kMaxRecordBytes.
void AppendRecord(absl::string_view message, std::string* out);

// Reads the message of the record at `offset`. Errors: OutOfRange (no whole record from here on:
// the end, a record that is being written, or one torn by a crash), DataLoss (a broken record with
// others after it; names file, byte, found, expected), those of ErrnoStatus.
absl::Status ReadRecord(int fd, int64_t offset, const std::string& path, std::string* message);

// Returns the offset of the first whole record at or after `offset`, found by its checksum. Errors:
// OutOfRange (there is none), those of ErrnoStatus.
absl::StatusOr<int64_t> FindRecord(int fd, int64_t offset, const std::string& path);

// DataLoss: "PATH: WHAT of the record at byte OFFSET: found FOUND, expected EXPECTED".
absl::Status BrokenRecord(const std::string& path, int64_t offset, absl::string_view what,
                          absl::string_view found, absl::string_view expected);

// Returns the size of an open file in bytes. Errors: those of ErrnoStatus.
absl::StatusOr<int64_t> FileSize(int fd, const std::string& path);

// Appends framed records to an open file of `size` bytes. On an error the file is truncated to
// `size`; if that fails too, readers see a torn record, and the message reports it. Errors:
// ResourceExhausted (disk full), those of ErrnoStatus.
absl::Status WriteRecords(int fd, int64_t size, absl::string_view records, const std::string& path);

}  // namespace stretto
