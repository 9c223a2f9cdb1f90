// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/etcd/etcd_rows.h"

#include "absl/strings/str_cat.h"
#include "coordinator/store/schema.h"
#include "etcd/record.pb.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

absl::Status Damaged(const EtcdValue& row, absl::string_view found) {
  return absl::DataLossError(absl::StrCat("key ", row.key, " in etcd is damaged: ", found,
                                          ". Restore a snapshot of etcd"));
}

}  // namespace

std::string EncodeRow(absl::string_view table, const Columns& columns) {
  EtcdRow row;
  RecordChecksum checksum(table);
  for (const StoredValue& value : columns) {
    checksum.Add(value);
    EtcdRow::Value* out = row.add_values();
    if (const auto* integer = std::get_if<int64_t>(&value)) {
      out->set_integer(*integer);
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      out->set_text(*text);
    } else if (const auto* blob = std::get_if<StoredBlob>(&value)) {
      out->set_blob(blob->bytes);
    }
  }
  row.set_checksum(checksum.value());
  return row.SerializeAsString();
}

absl::StatusOr<Columns> DecodeRow(absl::string_view table, const EtcdValue& row) {
  EtcdRow parsed;
  if (!parsed.ParseFromString(row.value)) {
    return Damaged(row, absl::StrCat("found ", row.value.size(), " bytes that are no record"));
  }
  std::vector<StoredValue> values = {parsed.checksum()};
  for (const EtcdRow::Value& value : parsed.values()) {
    switch (value.value_case()) {
      case EtcdRow::Value::kInteger:
        values.emplace_back(value.integer());
        break;
      case EtcdRow::Value::kText:
        values.emplace_back(value.text());
        break;
      case EtcdRow::Value::kBlob:
        values.emplace_back(StoredBlob{value.blob()});
        break;
      case EtcdRow::Value::VALUE_NOT_SET:
        values.emplace_back();
    }
  }
  if (!IsWhole(table, values)) {
    return Damaged(
        row, absl::StrCat("found checksum ", parsed.checksum(), ", expected that of its values"));
  }
  values.erase(values.begin());
  return values;
}

Columns SchemaColumns() { return {SchemaVersion()}; }

absl::StatusOr<CommitRow> DecodeCommit(const EtcdValue& row) {
  ASSIGN_OR_RETURN(const Columns columns, DecodeRow("commit", row));
  CommitRow commit;
  if (columns.size() != 3) return Damaged(row, "found no commit");
  if (const auto* id = std::get_if<std::string>(&columns[0])) commit.id = *id;
  if (const auto* parts = std::get_if<int64_t>(&columns[1])) commit.parts = *parts;
  return commit;
}

}  // namespace stretto::coordinator
