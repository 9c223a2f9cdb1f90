// SPDX-License-Identifier: Apache-2.0

// What the coordinator stores: bodies of records, rows of etcd, pages of a damaged database. Any
// bytes are read or refused, and what was read is written and read the same. Checksums guard rows
// and the frames of a database's log, so the bytes are also taken for what is in a row that is
// whole, and for what a log does.
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

#include "coordinator/store/etcd/etcd_parts.h"
#include "coordinator/store/etcd/etcd_rows.h"
#include "coordinator/store/leaf_records.h"
#include "coordinator/store/page_image.h"
#include "coordinator/store/record_codec.h"
#include "proto/base/check.h"
#include "tests/fuzz/fuzz_input.h"

namespace {

using namespace stretto::coordinator;  // NOLINT: all of this target is about it

void ReadBodies(const std::string& text) {
  JobRecord job;
  if (DecodeJobBody(text, &job).ok()) {
    JobRecord again, stored;
    STRETTO_CHECK(FromColumns(ColumnsOf(job), &stored).ok());
    STRETTO_CHECK(EncodeJobBody(stored) == EncodeJobBody(job));
    const std::string body = EncodeJobBody(job);
    STRETTO_CHECK(DecodeJobBody(body, &again).ok() && EncodeJobBody(again) == body);
  }
  WorkerRecord worker;
  if (DecodeWorkerBody(text, &worker).ok()) {
    WorkerRecord again, stored;
    STRETTO_CHECK(FromColumns(ColumnsOf(worker), &stored).ok());
    STRETTO_CHECK(EncodeWorkerBody(stored) == EncodeWorkerBody(worker));
    const std::string body = EncodeWorkerBody(worker);
    STRETTO_CHECK(DecodeWorkerBody(body, &again).ok() && EncodeWorkerBody(again) == body);
  }
}

void ReadColumns(const Columns& columns) {
  JobRecord job;
  FromColumns(columns, &job).IgnoreError();
  WorkerRecord worker;
  FromColumns(columns, &worker).IgnoreError();
  EpochRecord epoch;
  if (FromColumns(columns, &epoch).ok()) STRETTO_CHECK(ColumnsOf(epoch).size() == columns.size());
}

// Requests of a bounded size have all writes, each once.
void Split(const EtcdWrites& writes) {
  for (const size_t most_bytes : {size_t{24}, size_t{100}}) {
    const auto parts = SplitWrites(writes, /*max_operations=*/2, most_bytes);
    if (!parts.ok()) continue;
    EtcdWrites all;
    for (const EtcdWrites& part : *parts) {
      STRETTO_CHECK(part.size() <= 2);
      all.insert(part.begin(), part.end());
    }
    STRETTO_CHECK(all == writes);
  }
}

void ReadRows(const std::string& text) {
  const EtcdValue schema{.key = "schema", .value = EncodeRow("schema", SchemaColumns())};
  STRETTO_CHECK(*DecodeRow("schema", schema) == SchemaColumns());
  const Columns any = {std::monostate(), static_cast<int64_t>(text.size()), text, StoredBlob{text}};
  const auto row = DecodeRow("jobs", {.key = "fuzz", .value = EncodeRow("jobs", any)});
  STRETTO_CHECK(row.ok() && *row == any);
  for (const char* table : {"jobs", "workers", "epoch", "cluster"}) {
    const auto columns = DecodeRow(table, {.key = "fuzz", .value = text});
    if (columns.ok()) ReadColumns(*columns);
  }
  // As a job has them: id, uid, number, state, epoch, time, spec, fingerprint, summary, body.
  ReadColumns({"id", "uid", 1, text.empty() ? 0 : text[0], 1, 0, StoredBlob{text}, StoredBlob{},
               StoredBlob{text}, text});
  ReadColumns({"id", text});
  ReadColumns({text.empty() ? 0 : text[0]});
  const Columns commit = ColumnsOf(CommitRow{.id = text, .parts = 2, .transaction = text});
  for (const std::string& row : {EncodeRow("commit", commit), EncodeRow("commit", {text})}) {
    DecodeCommit({.key = "fuzz", .value = row}).status().IgnoreError();
  }
  for (const std::string& row : {text, EncodeRow("parts", {StoredBlob{text}})}) {
    DecodeCommit({.key = "fuzz", .value = row}).status().IgnoreError();
    const auto part = DecodePart({.key = "fuzz", .value = row});
    if (!part.ok()) continue;
    const auto again = DecodePart({.key = "fuzz", .value = EncodePart(*part)});
    STRETTO_CHECK(again.ok() && *again == *part);
    Split(*part);
  }
}

void ReadPages(absl::string_view bytes) {
  PageImage image;
  image.pages = std::string(bytes);
  image.pages.resize((bytes.size() + kPageBytes - 1) / kPageBytes * kPageBytes);
  ForEachLeafRecord(image, [](const LeafRecord& record) { IsWhole("jobs", record.values); });
}

// The log of a database, whose checksums are right unless the input says otherwise.
class Log {
 public:
  // Checksums have the order of bytes of one kind of machine or of the other.
  explicit Log(bool big_endian) : big_endian_(big_endian) {
    bytes_ = Number(big_endian ? 0x377f0683 : 0x377f0682) + Number(3'007'000) + Number(kPageBytes) +
             Number(0) + kSalts;
    Add(bytes_);
    bytes_ += Number(first_) + Number(second_);
  }
  // `size` is that of the database after a transaction of which this is the last frame, or 0. What
  // is wrong: the checksum ('x'), the salts ('o', of an earlier use of the file), or nothing.
  void Frame(uint8_t page, uint8_t size, char wrong, char filling) {
    const std::string head = Number(page) + Number(size), body(kPageBytes, filling);
    Add(head);
    Add(body);
    bytes_ += head + (wrong == 'o' ? "oldsalts" : kSalts) +
              Number(first_ + (wrong == 'x' ? 1 : 0)) + Number(second_) + body;
  }
  void SpoilHeader() { bytes_[kChecksumAt] ^= 1; }
  const std::string& bytes() const { return bytes_; }

 private:
  static constexpr size_t kChecksumAt = 24;
  static constexpr char kSalts[] = "saltsalt";
  static std::string Number(uint32_t value) {
    std::string out;
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
    return out;
  }
  void Add(absl::string_view bytes) {
    const auto word = [&](size_t at) {
      uint32_t value = 0;
      for (size_t i = 0; i < 4; ++i) {
        value = value << 8 | static_cast<uint8_t>(bytes[at + (big_endian_ ? i : 3 - i)]);
      }
      return value;
    };
    for (size_t at = 0; at + 8 <= bytes.size(); at += 8) {
      first_ += word(at) + second_;
      second_ += word(at + 4) + first_;
    }
  }

  const bool big_endian_;
  uint32_t first_ = 0, second_ = 0;
  std::string bytes_;
};

// Four bytes of the input say what a frame is; then at most a page of it is the database.
void ReadLog(absl::string_view text) {
  if (text.empty()) return;
  Log log((text[0] & 1) != 0);
  const bool is_spoiled = (text[0] & 0x10) != 0;
  text.remove_prefix(1);
  for (int frame = 0; frame < 8 && text.size() >= 4; ++frame) {
    log.Frame(static_cast<uint8_t>(text[0]), static_cast<uint8_t>(text[1]), text[2], text[3]);
    text.remove_prefix(4);
  }
  if (is_spoiled) log.SpoilHeader();
  const auto& folder = stretto::fuzz::Folder::Get();
  const std::string path = folder.Write("logged", text.substr(0, kPageBytes));
  // The last frame may be torn.
  const size_t torn = text.size() % 3;
  folder.Write("logged-wal", log.bytes().substr(0, log.bytes().size() - torn));
  const auto image = ReadPageImage(path);
  STRETTO_CHECK(image.ok() && CheckLog(path).ok() == !image->log_damage.has_value());
  STRETTO_CHECK(!image->log_damage ||
                *image->log_damage < static_cast<int64_t>(log.bytes().size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(stretto::fuzz::TextOf(data, size));
  ReadBodies(text);
  ReadRows(text);
  ReadPages(text);
  ReadLog(text);
  ReadPageImage(stretto::fuzz::Folder::Get().Write("database", text)).status().IgnoreError();
  return 0;
}
