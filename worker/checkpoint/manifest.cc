// SPDX-License-Identifier: Apache-2.0

// Writes and parses the manifest. Parsing trusts nothing: names are plain file names, numbers are
// bounded, and the shards of each tensor must be disjoint and cover it.

#include "worker/checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/strict_json.h"

namespace stretto {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Releases since "job_uid" refuse a greater version as newer and an unknown field as damage, so a
// release that adds a field counts this up.
constexpr uint64_t kVersion = 2;
// The version whose first field is "loss" of "held_out". A manifest has the lowest version that
// has its fields, so that older releases read all that they can.
constexpr uint64_t kWithLoss = 2;
// No layout has nearly this many, or compares nearly this many pairs.
constexpr size_t kMaxShards = 1 << 16;
constexpr int64_t kMaxPairs = 1 << 24;

std::string Show(const std::vector<int64_t>& values) {
  return absl::StrCat("[", absl::StrJoin(values, ","), "]");
}

ordered_json FileJson(const FileRecord& file) {
  ordered_json value;
  value["name"] = file.name;
  value["size"] = file.size;
  value["crc32c"] = file.crc32c;
  value["sha256"] = file.sha256;
  return value;
}

ordered_json TensorsJson(const std::vector<TensorRecord>& tensors) {
  ordered_json list = ordered_json::array();
  for (const TensorRecord& tensor : tensors) {
    ordered_json value;
    value["name"] = tensor.name;
    value["dtype"] = tensor.dtype;
    value["shape"] = tensor.shape;
    value["shards"] = ordered_json::array();
    for (const ShardRecord& shard : tensor.shards) {
      ordered_json entry;
      entry["file"] = shard.file;
      entry["offset"] = shard.offset;
      entry["starts"] = shard.starts;
      entry["extents"] = shard.extents;
      if (shard.key != tensor.name) entry["key"] = shard.key;
      value["shards"].push_back(std::move(entry));
    }
    list.push_back(std::move(value));
  }
  return list;
}

// Names become paths, so each must be one plain component.
bool IsFileName(const std::string& name) {
  if (name.empty() || name.size() > 255 || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return c > 0x20 && c < 0x7f && c != '/'; });
}

absl::StatusOr<FileRecord> ParseFile(const json& value, const std::string& where) {
  StrictObject object(value, where);
  FileRecord file;
  file.name = object.Text("name");
  file.size = object.Count("size");
  const uint64_t crc32c = object.Unsigned("crc32c");
  file.sha256 = object.Text("sha256");
  RETURN_IF_ERROR(object.Finish());
  if (!IsFileName(file.name)) object.Fail("name", file.name, "a file name without folder");
  if (crc32c > std::numeric_limits<uint32_t>::max()) {
    object.Fail("crc32c", absl::StrCat(crc32c), "32 bits");
  }
  if (file.sha256.size() != 64) object.Fail("sha256", file.sha256, "64 hexadecimal digits");
  file.crc32c = static_cast<uint32_t>(crc32c);
  RETURN_IF_ERROR(object.Finish());
  return file;
}

bool Intersect(const ShardRecord& a, const ShardRecord& b) {
  for (size_t i = 0; i < a.starts.size(); ++i) {
    if (a.starts[i] + a.extents[i] <= b.starts[i] || b.starts[i] + b.extents[i] <= a.starts[i]) {
      return false;
    }
  }
  return true;
}

absl::StatusOr<ShardRecord> ParseShard(const json& value, const TensorRecord& tensor,
                                       const std::map<std::string, int64_t>& file_sizes,
                                       const std::string& where) {
  StrictObject object(value, where);
  ShardRecord shard;
  shard.file = object.Text("file");
  shard.offset = object.Count("offset");
  shard.starts = object.Counts("starts");
  shard.extents = object.Counts("extents");
  shard.key = object.Has("key") ? object.Text("key") : tensor.name;
  RETURN_IF_ERROR(object.Finish());
  const size_t rank = tensor.shape.size();
  if (shard.starts.size() != rank || shard.extents.size() != rank) {
    object.Fail("starts and extents",
                absl::StrCat(Show(shard.starts), " and ", Show(shard.extents)),
                absl::StrCat(rank, " numbers each"));
    return object.Finish();
  }
  for (size_t i = 0; i < rank; ++i) {
    if (shard.extents[i] > tensor.shape[i] ||
        shard.starts[i] > tensor.shape[i] - shard.extents[i]) {
      object.Fail("starts and extents",
                  absl::StrCat(Show(shard.starts), " and ", Show(shard.extents)),
                  absl::StrCat("a box within shape ", Show(tensor.shape)));
    }
  }
  // The bytes fit 63 bits because those of the whole tensor do.
  absl::StatusOr<int64_t> bytes = TensorBytes(tensor.dtype, shard.extents);
  const auto size = file_sizes.find(shard.file);
  if (size == file_sizes.end()) {
    object.Fail("file", shard.file, "one of the files of the manifest");
  } else if (!bytes.ok() || *bytes > size->second || shard.offset > size->second - *bytes) {
    object.Fail("offset", absl::StrCat(shard.offset),
                absl::StrCat("an end within the ", size->second, " bytes of ", shard.file));
  }
  RETURN_IF_ERROR(object.Finish());
  return shard;
}

absl::Status CheckCover(const TensorRecord& tensor, const std::string& where) {
  ASSIGN_OR_RETURN(const int64_t total, TensorBytes(tensor.dtype, tensor.shape));
  // Sorted by their first row, only shards that begin before the end of another can overlap it.
  const auto first_row = [&](size_t shard) {
    const std::vector<int64_t>& starts = tensor.shards[shard].starts;
    return starts.empty() ? 0 : starts[0];
  };
  std::vector<size_t> order(tensor.shards.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return first_row(a) < first_row(b); });
  int64_t covered = 0, pairs = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const ShardRecord& shard = tensor.shards[order[i]];
    const int64_t end = first_row(order[i]) + (shard.extents.empty() ? 1 : shard.extents[0]);
    for (size_t j = i + 1; j < order.size() && first_row(order[j]) < end; ++j) {
      if (++pairs > kMaxPairs) {
        return absl::InvalidArgumentError(
            absl::StrCat(where, ": shards: found ", order.size(),
                         " that share rows, expected fewer: they cannot all be compared"));
      }
      if (!Intersect(shard, tensor.shards[order[j]])) continue;
      const auto [lower, higher] = std::minmax(order[i], order[j]);
      return absl::InvalidArgumentError(absl::StrCat(where, ": shards: found ", lower, " and ",
                                                     higher,
                                                     " overlapping, expected disjoint boxes"));
    }
    ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(tensor.dtype, shard.extents));
    covered += bytes;  // disjoint boxes of one tensor: the sum is at most `total`
  }
  if (covered == total) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(where, ": shards: found ", covered,
                                                 " bytes, expected the whole shape ",
                                                 Show(tensor.shape), " of ", total, " bytes"));
}

absl::StatusOr<TensorRecord> ParseTensor(const json& value,
                                         const std::map<std::string, int64_t>& file_sizes,
                                         const std::string& list) {
  StrictObject object(value, list);
  TensorRecord tensor;
  tensor.name = object.Text("name");
  tensor.dtype = object.Text("dtype");
  tensor.shape = object.Counts("shape");
  const json& shards = object.Array("shards");
  RETURN_IF_ERROR(object.Finish());
  const std::string where = absl::StrCat(list, " ", tensor.name);
  absl::StatusOr<int64_t> bytes = TensorBytes(tensor.dtype, tensor.shape);
  if (!bytes.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": ", bytes.status().message()));
  }
  if (shards.size() > kMaxShards) {
    object.Fail("shards", absl::StrCat(shards.size()), absl::StrCat("at most ", kMaxShards));
    return object.Finish();
  }
  for (const json& shard : shards) {
    ASSIGN_OR_RETURN(ShardRecord record,
                     ParseShard(shard, tensor, file_sizes,
                                absl::StrCat(where, ": shard ", tensor.shards.size())));
    tensor.shards.push_back(std::move(record));
  }
  return tensor;
}

absl::StatusOr<std::vector<FileRecord>> ParseFiles(const json& list, const std::string& where) {
  std::vector<FileRecord> files;
  for (const json& value : list) {
    ASSIGN_OR_RETURN(FileRecord file, ParseFile(value, where));
    files.push_back(std::move(file));
  }
  return files;
}

// Files of a checkpoint must have distinct names.
absl::Status CheckNames(const Manifest& manifest, const std::string& path) {
  std::set<std::string> names = {kManifestName};
  for (const auto* files : {&manifest.files, &manifest.attachments}) {
    for (const FileRecord& file : *files) {
      if (names.insert(file.name).second) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": files: found ", file.name, " twice, expected it once"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorRecord>> ParseTensors(const json& list,
                                                       const std::vector<FileRecord>& files,
                                                       const std::string& path) {
  std::map<std::string, int64_t> file_sizes;
  for (const FileRecord& file : files) file_sizes.emplace(file.name, file.size);
  std::vector<TensorRecord> tensors;
  std::set<std::string> names;
  for (const json& value : list) {
    ASSIGN_OR_RETURN(TensorRecord tensor,
                     ParseTensor(value, file_sizes, absl::StrCat(path, ": tensor")));
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": tensors: found ", tensor.name, " twice, expected it once"));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

const FileRecord* Manifest::FindAttachment(absl::string_view name) const {
  const auto found = std::find_if(attachments.begin(), attachments.end(),
                                  [&](const FileRecord& file) { return file.name == name; });
  return found == attachments.end() ? nullptr : &*found;
}

std::string ManifestText(const Manifest& manifest) {
  ordered_json document;
  document["version"] = manifest.state.held_out.loss.has_value() ? kWithLoss : 1;
  AddTrainingState(manifest.state, &document);
  document["files"] = ordered_json::array();
  for (const FileRecord& file : manifest.files) document["files"].push_back(FileJson(file));
  document["tensors"] = TensorsJson(manifest.tensors);
  for (const FileRecord& file : manifest.attachments) {
    document["attachments"].push_back(FileJson(file));
  }
  return document.dump(1) + "\n";
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text, const std::string& path) {
  ASSIGN_OR_RETURN(const json document, ParseStrictJson(text, path));
  StrictObject object(document, path);
  const uint64_t version = object.Unsigned("version");
  if (version > kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": version: found ", version, ", expected at most ", kVersion,
                     ": a newer release of Stretto wrote it, and can read it"));
  }
  if (version == 0) object.Fail("version", "0", absl::StrCat("1 to ", kVersion));
  Manifest manifest;
  ASSIGN_OR_RETURN(manifest.state, TakeTrainingState(object, path));
  const json& files = object.Array("files");
  const json& tensors = object.Array("tensors");
  static const json kNone = json::array();
  const json& attachments = object.Has("attachments") ? object.Array("attachments") : kNone;
  RETURN_IF_ERROR(object.Finish());
  ASSIGN_OR_RETURN(manifest.files, ParseFiles(files, absl::StrCat(path, ": file")));
  ASSIGN_OR_RETURN(manifest.attachments,
                   ParseFiles(attachments, absl::StrCat(path, ": attachment")));
  RETURN_IF_ERROR(CheckNames(manifest, path));
  ASSIGN_OR_RETURN(manifest.tensors, ParseTensors(tensors, manifest.files, path));
  for (const TensorRecord& tensor : manifest.tensors) {
    RETURN_IF_ERROR(CheckCover(tensor, absl::StrCat(path, ": tensor ", tensor.name)));
  }
  return manifest;
}

std::string ShardInfoText(const ShardInfo& info) {
  ordered_json document;
  document["file"] = FileJson(info.file);
  document["tensors"] = TensorsJson(info.tensors);
  return document.dump();
}

absl::StatusOr<ShardInfo> ParseShardInfo(absl::string_view text) {
  const std::string where = "shard info";
  ASSIGN_OR_RETURN(const json document, ParseStrictJson(text, where));
  StrictObject object(document, where);
  const json& file = object.Object("file");
  const json& tensors = object.Array("tensors");
  RETURN_IF_ERROR(object.Finish());
  ShardInfo info;
  ASSIGN_OR_RETURN(info.file, ParseFile(file, absl::StrCat(where, ": file")));
  ASSIGN_OR_RETURN(info.tensors, ParseTensors(tensors, {info.file}, where));
  return info;
}

}  // namespace stretto
