// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/record_checksum.h"

#include <array>

#include "proto/base/files.h"

namespace stretto::coordinator {

void RecordChecksum::AddHead(char type, uint64_t number) {
  std::array<char, 9> head;
  head[0] = type;
  for (int i = 0; i < 8; ++i) head[i + 1] = static_cast<char>(number >> (8 * i));
  crc_ = Crc32c(absl::string_view(head.data(), head.size()), crc_);
}

void RecordChecksum::AddBytes(char type, absl::string_view bytes) {
  AddHead(type, bytes.size());
  crc_ = Crc32c(bytes, crc_);
}

void RecordChecksum::Add(const StoredValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) {
    AddInteger(*integer);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    AddText(*text);
  } else if (const auto* blob = std::get_if<StoredBlob>(&value)) {
    AddBlob(blob->bytes);
  } else {
    AddNull();
  }
}

bool IsWhole(absl::string_view table, const std::vector<StoredValue>& values) {
  const auto* stored = values.empty() ? nullptr : std::get_if<int64_t>(&values[0]);
  if (stored == nullptr) return false;
  RecordChecksum checksum(table);
  for (size_t i = 1; i < values.size(); ++i) checksum.Add(values[i]);
  return checksum.value() == *stored;
}

}  // namespace stretto::coordinator
