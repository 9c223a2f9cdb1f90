// SPDX-License-Identifier: Apache-2.0

// Places tensors one after the other, writes the header and then the content in blocks, and
// computes both checksums on the way, while a block is in cache.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/checkpoint/strict_json.h"

namespace stretto {
namespace {

struct Placed {
  const SourceTensor* view;
  StoredTensor stored;
};

absl::StatusOr<std::vector<Placed>> Place(const std::string& path,
                                          const std::vector<SourceTensor>& tensors) {
  std::vector<Placed> placed;
  std::set<absl::string_view> names;
  for (const SourceTensor& view : tensors) {
    if (!names.insert(view.name).second || view.name == "__metadata__") {
      return absl::InvalidArgumentError(absl::StrCat(path, ": tensor '", view.name,
                                                     "': found a name twice or reserved, expected "
                                                     "one of its own"));
    }
    absl::StatusOr<int64_t> bytes = TensorBytes(view.dtype, view.shape);
    if (!bytes.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensor ", view.name, ": ", bytes.status().message()));
    }
    placed.push_back({&view, {view.name, view.dtype, view.shape, 0, *bytes}});
  }
  std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
    const int a_bits = DtypeBits(a.stored.dtype), b_bits = DtypeBits(b.stored.dtype);
    return a_bits != b_bits ? a_bits > b_bits : a.stored.name < b.stored.name;
  });
  int64_t offset = 0;
  for (Placed& tensor : placed) {
    tensor.stored.offset = offset;
    offset += tensor.stored.bytes;
  }
  return placed;
}

// Returns the eight bytes of length and the padded JSON, and makes the offsets relative to the
// file.
std::string Header(const std::map<std::string, std::string>& metadata,
                   std::vector<Placed>* tensors) {
  nlohmann::ordered_json document = nlohmann::ordered_json::object();
  if (!metadata.empty()) document["__metadata__"] = metadata;
  for (const Placed& tensor : *tensors) {
    const StoredTensor& stored = tensor.stored;
    nlohmann::ordered_json& entry = document[stored.name];
    entry["dtype"] = stored.dtype;
    entry["shape"] = stored.shape;
    entry["data_offsets"] = {stored.offset, stored.offset + stored.bytes};
  }
  std::string text = document.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size();
  std::string header(reinterpret_cast<const char*>(&length), sizeof(length));
  header += text;
  for (Placed& tensor : *tensors) tensor.stored.offset += static_cast<int64_t>(header.size());
  return header;
}

absl::Status WriteBlocks(int fd, absl::string_view content, const std::string& path,
                         Checksums* checksums) {
  while (!content.empty()) {
    const absl::string_view block = content.substr(0, kChecksumBlockBytes);
    checksums->Add(block);
    RETURN_IF_ERROR(WriteAll(fd, block, path));
    content.remove_prefix(block.size());
  }
  return absl::OkStatus();
}

absl::Status WriteTensors(int fd, const std::string& header, const std::vector<Placed>& tensors,
                          const std::string& path, Checksums* checksums) {
  RETURN_IF_ERROR(WriteBlocks(fd, header, path, checksums));
  for (const Placed& tensor : tensors) {
    ASSIGN_OR_RETURN(const void* const data, tensor.view->data.fetch());
    const absl::string_view content(static_cast<const char*>(data), tensor.stored.bytes);
    RETURN_IF_ERROR(WriteBlocks(fd, content, path, checksums));
  }
  if (::fsync(fd) != 0) return ErrnoStatus(errno, absl::StrCat("fsync ", path));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WrittenSafetensors> WriteSafetensors(
    const std::string& path, const std::vector<SourceTensor>& tensors,
    const std::map<std::string, std::string>& metadata) {
  ASSIGN_OR_RETURN(std::vector<Placed> placed, Place(path, tensors));
  const std::string header = Header(metadata, &placed);
  ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC, 0644));
  Checksums checksums;
  if (absl::Status status = WriteTensors(file.get(), header, placed, path, &checksums);
      !status.ok()) {
    RemoveTree(path).IgnoreError();
    return status;
  }
  WrittenSafetensors written{checksums.Finish(path), {}};
  for (Placed& tensor : placed) written.tensors.push_back(std::move(tensor.stored));
  return written;
}

}  // namespace stretto
