// SPDX-License-Identifier: Apache-2.0
#include "coordinator/store/etcd/etcd_parts.h"

#include "absl/strings/str_cat.h"
#include "coordinator/store/etcd/etcd_rows.h"
#include "etcd/record.pb.h"
#include "proto/base/status_macros.h"

namespace stretto::coordinator {
namespace {

constexpr size_t kBytesAround = 16;  // what a message adds to key and value

size_t BytesOf(const EtcdWrites::value_type& write) {
  return write.first.size() + (write.second.has_value() ? write.second->size() : 0) + kBytesAround;
}

}  // namespace

absl::StatusOr<std::vector<EtcdWrites>> SplitWrites(const EtcdWrites& writes, size_t max_operations,
                                                    size_t max_bytes) {
  std::vector<EtcdWrites> parts(1);
  size_t bytes = 0;
  for (const auto& write : writes) {
    const size_t more = BytesOf(write);
    if (more > max_bytes) {
      return absl::InvalidArgumentError(absl::StrCat("record ", write.first, " has ", more,
                                                     " bytes, expected at most ", max_bytes,
                                                     ": etcd takes no more in one request"));
    }
    if (parts.back().size() == max_operations || bytes + more > max_bytes) {
      parts.emplace_back();
      bytes = 0;
    }
    parts.back().insert(write);
    bytes += more;
  }
  return parts;
}

std::string EncodePart(const EtcdWrites& writes) {
  EtcdPart part;
  for (const auto& [name, value] : writes) {
    EtcdPart::Write* write = part.add_writes();
    write->set_key(name);
    write->set_erase(!value.has_value());
    if (value.has_value()) write->set_value(*value);
  }
  return EncodeRow("parts", {StoredBlob{part.SerializeAsString()}});
}

absl::StatusOr<EtcdWrites> DecodePart(const EtcdValue& row) {
  ASSIGN_OR_RETURN(const Columns columns, DecodeRow("parts", row));
  const auto* blob = columns.size() == 1 ? std::get_if<StoredBlob>(&columns[0]) : nullptr;
  EtcdPart part;
  if (blob == nullptr || !part.ParseFromString(blob->bytes)) {
    return absl::DataLossError(absl::StrCat("key ", row.key, " in etcd is damaged"));
  }
  EtcdWrites writes;
  for (const EtcdPart::Write& write : part.writes()) {
    writes[write.key()] = write.erase() ? std::nullopt : std::optional<std::string>(write.value());
  }
  return writes;
}

}  // namespace stretto::coordinator
