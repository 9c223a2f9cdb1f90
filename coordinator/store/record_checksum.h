// SPDX-License-Identifier: Apache-2.0
#pragma once
// The checksum of a stored record: CRC-32C over the name of its table and over the type, length and
// bytes of each value in the order of its columns. It is the first column of every table, so a
// record can be told from a damaged one wherever its bytes are found. SQLite itself has no checksum
// of a page. In SQL it is the function record_checksum(TABLE, VALUE, ...).

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"

namespace stretto::coordinator {

struct StoredBlob {
  std::string bytes;
  bool operator==(const StoredBlob&) const = default;
};
// NULL, an integer, a text or a blob.
using StoredValue = std::variant<std::monostate, int64_t, std::string, StoredBlob>;

class RecordChecksum {
 public:
  explicit RecordChecksum(absl::string_view table) { AddText(table); }

  void AddNull() { AddHead('n', 0); }
  void AddInteger(int64_t value) { AddHead('i', static_cast<uint64_t>(value)); }
  void AddText(absl::string_view text) { AddBytes('t', text); }
  void AddBlob(absl::string_view bytes) { AddBytes('b', bytes); }
  void Add(const StoredValue& value);

  int64_t value() const { return crc_; }

 private:
  void AddHead(char type, uint64_t number);
  void AddBytes(char type, absl::string_view bytes);

  uint32_t crc_ = 0;
};

// Whether `values` is a whole record of `table`: the first one is the checksum of the others.
bool IsWhole(absl::string_view table, const std::vector<StoredValue>& values);

}  // namespace stretto::coordinator
