// SPDX-License-Identifier: Apache-2.0

// https://www.sqlite.org/fileformat2.html#b_tree_pages: a leaf of a table has a header, an array of
// offsets of cells, and the cells. A cell is the length of its payload, a row id, and the payload,
// of which what does not fit continues in a chain of overflow pages. A payload is a header, which
// has a type for each column, and the values. Every offset and length is checked.

#include "coordinator/store/leaf_records.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace stretto::coordinator {
namespace {

constexpr char kTableLeaf = 13;

// Reads numbers from bytes; `ok` is false after reading beyond their end.
struct Reader {
  absl::string_view bytes;
  size_t at = 0;
  bool ok = true;

  uint64_t BigEndian(size_t count) {
    if (bytes.size() - at < count) return Fail();
    uint64_t value = 0;
    for (; count > 0; --count) value = value << 8 | static_cast<uint8_t>(bytes[at++]);
    return value;
  }
  // Seven bits a byte, the first of which are the highest; a ninth byte has eight.
  uint64_t Varint() {
    uint64_t value = 0;
    for (int i = 0; i < 9; ++i) {
      if (at >= bytes.size()) return Fail();
      const auto byte = static_cast<uint8_t>(bytes[at++]);
      if (i == 8) return value << 8 | byte;
      value = value << 7 | (byte & 0x7f);
      if (byte < 0x80) return value;
    }
    return value;
  }
  absl::string_view Take(uint64_t count) {
    if (bytes.size() - at < count) return Fail(), absl::string_view();
    at += count;
    return bytes.substr(at - count, count);
  }

 private:
  uint64_t Fail() {
    ok = false;
    at = bytes.size();
    return 0;
  }
};

// How many bytes of a payload are in the cell itself.
uint64_t LocalBytes(uint64_t payload) {
  constexpr uint64_t kMost = kPageBytes - 35, kLeast = (kPageBytes - 12) * 32 / 255 - 23;
  if (payload <= kMost) return payload;
  const uint64_t fitting = kLeast + (payload - kLeast) % (kPageBytes - 4);
  return fitting <= kMost ? fitting : kLeast;
}

// Returns the payload of the cell at `cell`.
std::optional<std::string> Payload(absl::string_view page, size_t cell, const PageImage& image,
                                   int64_t* row_id) {
  Reader reader{page, cell};
  const uint64_t length = reader.Varint();
  *row_id = static_cast<int64_t>(reader.Varint());
  if (!reader.ok || length > image.pages.size()) return std::nullopt;
  const uint64_t local = LocalBytes(length);
  std::string payload(reader.Take(local));
  uint64_t next = local < length ? reader.BigEndian(4) : 0;
  if (!reader.ok) return std::nullopt;
  while (payload.size() < length) {
    if (next < 1 || next > static_cast<uint64_t>(image.count())) {
      payload.resize(length);  // the chain is broken, but the id of the record is in the leaf
      break;
    }
    Reader overflow{image.page(static_cast<int64_t>(next))};
    next = overflow.BigEndian(4);
    const absl::string_view rest = overflow.Take(kPageBytes - 4);
    payload.append(rest.data(), std::min<size_t>(rest.size(), length - payload.size()));
  }
  return payload;
}

// A value of a record. `type` is as SQLite stores it.
StoredValue Value(uint64_t type, Reader* values) {
  constexpr size_t kIntegerBytes[] = {0, 1, 2, 3, 4, 6, 8};
  if (type == 0) return std::monostate();
  if (type == 8 || type == 9) return static_cast<int64_t>(type - 8);
  if (type >= 12) {
    std::string bytes(values->Take((type - 12) / 2));
    if (type % 2 == 0) return StoredBlob{std::move(bytes)};
    return bytes;
  }
  if (type > 6) {  // a real number, or reserved: no table has them
    values->ok = false;
    return std::monostate();
  }
  const size_t bytes = kIntegerBytes[type];
  const uint64_t sign_bits = 64 - 8 * bytes;
  return static_cast<int64_t>(values->BigEndian(bytes) << sign_bits) >> sign_bits;
}

std::optional<std::vector<StoredValue>> Decode(absl::string_view payload) {
  Reader header{payload};
  const uint64_t header_bytes = header.Varint();
  if (!header.ok || header_bytes > payload.size()) return std::nullopt;
  Reader values{payload, header_bytes};
  header.bytes = payload.substr(0, header_bytes);
  if (header.at > header_bytes) return std::nullopt;
  std::vector<StoredValue> record;
  while (header.ok && values.ok && header.at < header_bytes) {
    const uint64_t type = header.Varint();
    record.push_back(Value(type, &values));
  }
  if (!header.ok || !values.ok || values.at != payload.size()) return std::nullopt;
  return record;
}

}  // namespace

void ForEachLeafRecord(const PageImage& image, const std::function<void(LeafRecord)>& visit) {
  for (int64_t number = 1; number <= image.count(); ++number) {
    const absl::string_view page = image.page(number);
    // The first page begins with the header of the file, and its records are the schema.
    if (page[0] != kTableLeaf) continue;
    Reader header{page, 3};
    const uint64_t cells = header.BigEndian(2);
    header.at = 8;
    for (uint64_t i = 0; i < cells && header.ok; ++i) {
      const uint64_t cell = header.BigEndian(2);
      if (!header.ok || cell >= page.size()) continue;
      int64_t row_id = 0;
      if (const auto payload = Payload(page, cell, image, &row_id)) {
        if (auto record = Decode(*payload)) visit({row_id, std::move(*record)});
      }
    }
  }
}

}  // namespace stretto::coordinator
