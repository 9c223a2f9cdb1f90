// SPDX-License-Identifier: Apache-2.0
#pragma once
// The safetensors file format: u64 N, N bytes of JSON (padded with blanks), then the bytes of the
// tensors without holes. Little-endian.
//   {"w": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"k": "v"}}
// Offsets are relative to the first byte after the header.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/base/files.h"
#include "worker/checkpoint/checksums.h"

namespace stretto {

// Returns the bits per element of a dtype by its name in the format ("F32", "BF16", "I64", "I32",
// "U8", ...), or 0 if there is no such dtype.
int DtypeBits(absl::string_view dtype);

// Returns the bytes of a dense tensor. Errors: InvalidArgument (unknown dtype, overflow, half a
// byte).
absl::StatusOr<int64_t> TensorBytes(absl::string_view dtype, const std::vector<int64_t>& shape);

// A tensor in a file.
struct StoredTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t offset = 0;  // of its first byte, from the start of the file
  int64_t bytes = 0;
};

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors;  // by offset
  std::map<std::string, std::string> metadata;
};

// Checks a whole header against the size of its file; trusts nothing. `json` is the text after the
// first eight bytes. Errors: InvalidArgument (names `path`, tensor, found, expected).
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view json, int64_t file_size,
                                                         const std::string& path);

// Thread-safe after Open.
class SafetensorsReader {
 public:
  // Errors: NotFound and the like, InvalidArgument (malformed: hole, overlap, wrong sizes).
  static absl::StatusOr<SafetensorsReader> Open(const std::string& path);

  const SafetensorsHeader& header() const { return header_; }
  // Returns null if there is no such tensor.
  const StoredTensor* Find(absl::string_view name) const;

  // Copies `count` bytes, starting at byte `begin` of the tensor; the range must be within the
  // tensor. Errors: DataLoss (the file has shrunk), Unavailable (I/O error).
  absl::Status Read(const StoredTensor& tensor, int64_t begin, int64_t count, void* out) const;

 private:
  SafetensorsReader(std::string path, FileDescriptor file, SafetensorsHeader header)
      : path_(std::move(path)), file_(std::move(file)), header_(std::move(header)) {}

  std::string path_;
  FileDescriptor file_;
  SafetensorsHeader header_;
};

// The bytes of a tensor, dense and row-major; borrowed. They are either in memory, or fetched when
// they are needed to memory that is valid until the next fetch, because the host may have no room
// for all tensors of a device.
struct TensorData {
  using Fetch = std::function<absl::StatusOr<const void*>()>;
  TensorData(const void* at = nullptr) : fetch([at] { return at; }) {}
  explicit TensorData(Fetch fetch) : fetch(std::move(fetch)) {}

  Fetch fetch;
};

struct SourceTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  TensorData data;
};

struct WrittenSafetensors {
  FileRecord file;
  std::vector<StoredTensor> tensors;  // by offset
};

// Writes and fsyncs a file; the caller fsyncs its folder. Tensors are sorted by alignment, then
// name. On an error the file is removed. Errors: InvalidArgument (unknown dtype, a duplicate name),
// ResourceExhausted (disk full), those of fetching.
absl::StatusOr<WrittenSafetensors> WriteSafetensors(
    const std::string& path, const std::vector<SourceTensor>& tensors,
    const std::map<std::string, std::string>& metadata);

}  // namespace stretto
