// SPDX-License-Identifier: Apache-2.0

// What the coordinator stores: bodies of records, rows of etcd, pages of a damaged database. Any
// bytes are read or refused, and what was read is written and read the same. A checksum guards a
// row, so the bytes are also taken for what is in a row that is whole.
#include <cstddef>
#include <cstdint>
#include <string>

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
    JobRecord again;
    const std::string body = EncodeJobBody(job);
    STRETTO_CHECK(DecodeJobBody(body, &again).ok() && EncodeJobBody(again) == body);
  }
  WorkerRecord worker;
  if (DecodeWorkerBody(text, &worker).ok()) {
    WorkerRecord again;
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
  FromColumns(columns, &epoch).IgnoreError();
}

void ReadRows(const std::string& text) {
  for (const char* table : {"jobs", "workers", "epoch", "cluster"}) {
    const auto columns = DecodeRow(table, {.key = "fuzz", .value = text});
    if (columns.ok()) ReadColumns(*columns);
  }
  // As a job has them: id, uid, number, state, epoch, time, spec, fingerprint, summary, body.
  ReadColumns({"id", "uid", 1, text.empty() ? 0 : text[0], 1, 0, StoredBlob{text}, StoredBlob{},
               StoredBlob{text}, text});
  ReadColumns({"id", text});
  ReadColumns({text.empty() ? 0 : text[0]});
  for (const std::string& row : {text, EncodeRow("parts", {StoredBlob{text}})}) {
    DecodeCommit({.key = "fuzz", .value = row}).status().IgnoreError();
    const auto part = DecodePart({.key = "fuzz", .value = row});
    if (!part.ok()) continue;
    const auto again = DecodePart({.key = "fuzz", .value = EncodePart(*part)});
    STRETTO_CHECK(again.ok() && *again == *part);
  }
}

void ReadPages(absl::string_view bytes) {
  PageImage image;
  image.pages = std::string(bytes);
  image.pages.resize((bytes.size() + kPageBytes - 1) / kPageBytes * kPageBytes);
  ForEachLeafRecord(image, [](const LeafRecord& record) { IsWhole("jobs", record.values); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(stretto::fuzz::TextOf(data, size));
  ReadBodies(text);
  ReadRows(text);
  ReadPages(text);
  ReadPageImage(stretto::fuzz::Folder::Get().Write("database", text)).status().IgnoreError();
  return 0;
}
