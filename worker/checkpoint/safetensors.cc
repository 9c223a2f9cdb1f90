// SPDX-License-Identifier: Apache-2.0

// Parses the header and checks that the tensors' ranges are in order, without holes or overlap, and
// end with the file. Reading a tensor is then a plain read at an offset.

#include "worker/checkpoint/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/strict_json.h"

namespace stretto {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;

absl::Status Malformed(const std::string& path, absl::string_view what, absl::string_view found,
                       absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", what, ": found ", found, ", expected ", expected));
}

absl::Status ParseMetadata(const json& value, const std::string& path, SafetensorsHeader* header) {
  if (!value.is_object()) return Malformed(path, "__metadata__", value.type_name(), "an object");
  for (const auto& item : value.items()) {
    if (!item.value().is_string()) {
      return Malformed(path, absl::StrCat("__metadata__ ", item.key()), item.value().type_name(),
                       "text");
    }
    header->metadata[item.key()] = item.value().get<std::string>();
  }
  return absl::OkStatus();
}

// Sets `offset` to the offset relative to the data.
absl::StatusOr<StoredTensor> ParseTensor(const std::string& name, const json& value,
                                         const std::string& path) {
  StrictObject object(value, absl::StrCat(path, ": tensor ", name));
  StoredTensor tensor;
  tensor.name = name;
  tensor.dtype = object.Text("dtype");
  tensor.shape = object.Counts("shape");
  const std::vector<int64_t> offsets = object.Counts("data_offsets");
  if (offsets.size() != 2) {
    object.Fail("data_offsets", absl::StrCat(offsets.size(), " numbers"), "2");
  } else if (offsets[1] < offsets[0]) {
    object.Fail("data_offsets", absl::StrCat(offsets[0], ", ", offsets[1]), "an ascending pair");
  }
  RETURN_IF_ERROR(object.Finish());
  absl::StatusOr<int64_t> bytes = TensorBytes(tensor.dtype, tensor.shape);
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": tensor ", name, ": ", bytes.status().message()));
  }
  if (offsets[1] - offsets[0] != *bytes) {
    return Malformed(path, absl::StrCat("tensor ", name, ": data_offsets"),
                     absl::StrCat(offsets[1] - offsets[0], " bytes"),
                     absl::StrCat(*bytes, " as its shape and dtype say"));
  }
  tensor.offset = offsets[0];
  tensor.bytes = *bytes;
  return tensor;
}

}  // namespace

int DtypeBits(absl::string_view dtype) {
  static const std::map<absl::string_view, int> bits = {
      {"F64", 64},    {"F32", 32},    {"F16", 16},        {"BF16", 16},       {"I64", 64},
      {"I32", 32},    {"I16", 16},    {"I8", 8},          {"U64", 64},        {"U32", 32},
      {"U16", 16},    {"U8", 8},      {"BOOL", 8},        {"C64", 64},        {"F8_E4M3", 8},
      {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6},
      {"F6_E3M2", 6}, {"F4", 4}};
  const auto found = bits.find(dtype);
  return found == bits.end() ? 0 : found->second;
}

absl::StatusOr<int64_t> TensorBytes(absl::string_view dtype, const std::vector<int64_t>& shape) {
  int64_t total = DtypeBits(dtype);
  if (total == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("dtype: found '", dtype, "', expected one of the format"));
  }
  // An empty tensor is empty even if its other extents alone would overflow.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(total, extent, &total)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape: found an extent of ", extent, ", expected fewer than 2^63 bits"));
    }
  }
  if (total % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape: found ", total, " bits, expected whole bytes"));
  }
  return total / 8;
}

absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(absl::string_view text, int64_t file_size,
                                                         const std::string& path) {
  if (text.empty() || text.front() != '{') return Malformed(path, "header", "no '{'", "'{' first");
  ASSIGN_OR_RETURN(const json document, ParseStrictJson(text, path));
  if (!document.is_object()) return Malformed(path, "header", document.type_name(), "an object");
  SafetensorsHeader header;
  for (const auto& item : document.items()) {
    if (item.key() == "__metadata__") {
      RETURN_IF_ERROR(ParseMetadata(item.value(), path, &header));
      continue;
    }
    ASSIGN_OR_RETURN(StoredTensor tensor, ParseTensor(item.key(), item.value(), path));
    header.tensors.push_back(std::move(tensor));
  }
  // An empty tensor comes before the one that begins at the same byte.
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return std::tie(a.offset, a.bytes, a.name) < std::tie(b.offset, b.bytes, b.name);
            });
  const int64_t data = 8 + static_cast<int64_t>(text.size());
  int64_t end = 0;
  for (StoredTensor& tensor : header.tensors) {
    if (tensor.offset != end) {
      return Malformed(path, absl::StrCat("tensor ", tensor.name, ": data_offsets"),
                       absl::StrCat("a begin of ", tensor.offset),
                       absl::StrCat(end, ", without hole or overlap"));
    }
    if (tensor.bytes > file_size - data - end) {
      return Malformed(path, absl::StrCat("tensor ", tensor.name, ": data_offsets"),
                       absl::StrCat(tensor.bytes, " bytes at ", tensor.offset),
                       absl::StrCat("an end within the ", file_size - data, " bytes of data"));
    }
    end += tensor.bytes;
    tensor.offset += data;
  }
  if (data + end != file_size) {
    return Malformed(path, "file", absl::StrCat(file_size, " bytes"), absl::StrCat(data + end));
  }
  return header;
}

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(const std::string& path) {
  absl::StatusOr<FileDescriptor> opened = OpenFile(path, O_RDONLY | O_NONBLOCK);
  // Somebody, a file server perhaps, has a lease of the file and gives it up for who waits.
  if (absl::IsUnavailable(opened.status())) opened = OpenFile(path, O_RDONLY);
  if (!opened.ok()) return opened.status();
  FileDescriptor file = *std::move(opened);
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (!S_ISREG(info.st_mode)) return Malformed(path, "file", "another kind", "a regular file");
  if (info.st_size < 8) {
    return Malformed(path, "file", absl::StrCat(info.st_size, " bytes"), "at least 8");
  }
  uint64_t length = 0;
  RETURN_IF_ERROR(ReadFully(file.get(), 0, 8, &length, path));
  const auto limit = std::min(kMaxHeaderBytes, static_cast<uint64_t>(info.st_size) - 8);
  if (length > limit) {
    return Malformed(path, "header length at byte 0", absl::StrCat(length),
                     absl::StrCat("at most ", limit));
  }
  std::string text(length, '\0');
  RETURN_IF_ERROR(ReadFully(file.get(), 8, static_cast<int64_t>(length), text.data(), path));
  ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(text, info.st_size, path));
  return SafetensorsReader(path, std::move(file), std::move(header));
}

const StoredTensor* SafetensorsReader::Find(absl::string_view name) const {
  for (const StoredTensor& tensor : header_.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

absl::Status SafetensorsReader::Read(const StoredTensor& tensor, int64_t begin, int64_t count,
                                     void* out) const {
  STRETTO_CHECK(0 <= begin && 0 <= count && count <= tensor.bytes && begin <= tensor.bytes - count);
  return ReadFully(file_.get(), tensor.offset + begin, count, out, path_);
}

}  // namespace stretto
