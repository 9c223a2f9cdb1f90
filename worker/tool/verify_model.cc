// SPDX-License-Identifier: Apache-2.0

// A checkpoint's files are read twice: once for their checksums, once shard by shard for non-finite
// values. A model of another format is read tensor by tensor, and so is an optimizer's state beside
// it. Damage of the model is collected; only a failure to read at all is an error.

#include "worker/tool/verify_model.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/checked_file.h"
#include "worker/checkpoint/job_folder.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/engine/model/parameters.h"
#include "worker/exchange/export_layout.h"
#include "worker/exchange/model_source.h"
#include "worker/exchange/parameter_table.h"
#include "worker/tool/model_name.h"

namespace stretto {
namespace {

constexpr int64_t kBlockElements = int64_t{4} << 20;

// Whether the error is about the model and not about reading it.
bool IsBad(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsDataLoss(status) || absl::IsNotFound(status) ||
         absl::IsFailedPrecondition(status);
}

class Verifier {
 public:
  explicit Verifier(const VerifyProgress& progress) : progress_(progress) {}

  Verified Take() { return std::move(found_); }

  absl::Status VerifyCheckpoint(const std::string& folder) {
    const absl::StatusOr<Manifest> manifest = ReadManifest(folder);
    if (!manifest.ok()) return Note(manifest.status());
    found_.tensors = static_cast<int64_t>(manifest->tensors.size());
    for (const FileRecord& file : manifest->files) total_ += 2 * file.size;
    for (const FileRecord& file : manifest->attachments) total_ += file.size;
    for (const FileRecord& file : manifest->attachments) {
      RETURN_IF_ERROR(VerifyFile(folder, file).status());
    }
    for (const FileRecord& file : manifest->files) {
      ASSIGN_OR_RETURN(const bool whole, VerifyFile(folder, file));
      if (whole) RETURN_IF_ERROR(VerifyShards(folder, file.name, *manifest));
    }
    return absl::OkStatus();
  }

  absl::Status VerifyForeign(const std::string& name) {
    const absl::StatusOr<std::unique_ptr<ModelSource>> source = OpenModel(name);
    if (!source.ok()) return Note(source.status());
    const ModelSpec& model = (*source)->model();
    const std::vector<ExportTensor> tensors =
        ExportTensors(model, absl::StartsWith(name, "hf:") ? HfLayout(model) : LlmcLayout(model));
    found_.tensors = static_cast<int64_t>(tensors.size());
    for (const ExportTensor& tensor : tensors) total_ += tensor.count() * 4;
    std::string optimizer = absl::StrCat(absl::StripPrefix(name, "hf:"), "/", kOptimizerFileName);
    std::error_code ignored;
    if (!std::filesystem::exists(optimizer, ignored)) optimizer.clear();
    if (!optimizer.empty())
      total_ += static_cast<int64_t>(std::filesystem::file_size(optimizer, ignored));
    for (const ExportTensor& tensor : tensors) RETURN_IF_ERROR(VerifyTensor(**source, tensor));
    return optimizer.empty() ? absl::OkStatus() : VerifyOptimizer(optimizer, model);
  }

 private:
  // Collects an error about the model; returns any other error.
  absl::Status Note(const absl::Status& status) {
    if (!IsBad(status)) return status;
    found_.bad.emplace_back(status.message());
    return absl::OkStatus();
  }

  void Advance(int64_t bytes) {
    found_.bytes += bytes;
    if (progress_) progress_(found_.bytes, total_);
  }

  absl::StatusOr<bool> VerifyFile(const std::string& folder, const FileRecord& expected) {
    const std::string path = absl::StrCat(folder, "/", expected.name);
    const absl::StatusOr<FileRecord> found = ChecksumFile(path);
    if (!found.ok()) {
      RETURN_IF_ERROR(Note(found.status()));
      return false;
    }
    Advance(found->size);
    std::string what;
    if (found->size != expected.size) {
      what = absl::StrCat("size: found ", found->size, ", expected ", expected.size);
    } else if (found->crc32c != expected.crc32c) {
      what = absl::StrCat("crc32c: found ", found->crc32c, ", expected ", expected.crc32c);
    } else if (found->sha256 != expected.sha256) {
      what = absl::StrCat("sha256: found ", found->sha256, ", expected ", expected.sha256);
    }
    if (!what.empty()) found_.bad.push_back(absl::StrCat(path, ": ", what));
    return what.empty();
  }

  absl::Status VerifyShards(const std::string& folder, const std::string& name,
                            const Manifest& manifest) {
    const std::string path = absl::StrCat(folder, "/", name);
    const absl::StatusOr<SafetensorsReader> file = SafetensorsReader::Open(path);
    if (!file.ok()) return Note(file.status());
    for (const TensorRecord& tensor : manifest.tensors) {
      for (const ShardRecord& shard : tensor.shards) {
        if (shard.file != name) continue;
        const StoredTensor* stored = file->Find(tensor.name);
        if (stored == nullptr || stored->dtype != tensor.dtype || stored->shape != shard.extents ||
            stored->offset != shard.offset) {
          found_.bad.push_back(absl::StrCat(path, ": tensor ", tensor.name,
                                            ": found another header, expected as in ",
                                            kManifestName));
          continue;
        }
        if (tensor.dtype == "F32") RETURN_IF_ERROR(VerifyStored(*file, *stored, path));
      }
    }
    return absl::OkStatus();
  }

  // Verifies the state that an export with --optimizer wrote beside the model.
  absl::Status VerifyOptimizer(const std::string& path, const ModelSpec& model) {
    const absl::StatusOr<SafetensorsReader> file = SafetensorsReader::Open(path);
    if (!file.ok()) return Note(file.status());
    const auto& metadata = file->header().metadata;
    if (const auto state = metadata.find(kTrainingStateKey); state == metadata.end()) {
      found_.bad.push_back(absl::StrCat(path, ": metadata ", kTrainingStateKey,
                                        ": found none, expected where training stood"));
    } else {
      RETURN_IF_ERROR(Note(ParseTrainingState(state->second, path).status()));
    }
    found_.tensors += static_cast<int64_t>(file->header().tensors.size());
    for (const Parameter& parameter : ParametersOf(model, 1, 0)) {
      for (const char* moment : {".m", ".v"}) {
        const std::string name = parameter.name + moment;
        const StoredTensor* stored = file->Find(name);
        if (stored != nullptr && stored->dtype == "F32" && stored->shape == parameter.shape) {
          RETURN_IF_ERROR(VerifyStored(*file, *stored, path));
          continue;
        }
        const std::string found =
            stored == nullptr ? "none" : absl::StrCat(stored->dtype, " ", ShapeText(stored->shape));
        found_.bad.push_back(absl::StrCat(path, ": tensor ", name, ": found ", found,
                                          ", expected F32 ", ShapeText(parameter.shape)));
      }
    }
    return absl::OkStatus();
  }

  absl::Status VerifyStored(const SafetensorsReader& file, const StoredTensor& tensor,
                            const std::string& path) {
    Bad bad;
    for (int64_t begin = 0; begin < tensor.bytes;) {
      const int64_t bytes = std::min(tensor.bytes - begin, kBlockElements * 4);
      values_.resize(bytes / 4);
      RETURN_IF_ERROR(file.Read(tensor, begin, bytes, values_.data()));
      Count(&bad);
      begin += bytes;
      Advance(bytes);
    }
    Report(path, tensor.name, bad);
    return absl::OkStatus();
  }

  absl::Status VerifyTensor(const ModelSource& source, const ExportTensor& tensor) {
    Bad bad;
    int64_t begin = 0;
    for (const ExportBox& box : tensor.boxes) {
      RETURN_IF_ERROR(ForEachBlock(tensor.layout, box, kBlockElements, [&](const ExportBox& block) {
        values_.resize(block.count());
        RETURN_IF_ERROR(source.Read(block.parameter, block.starts, block.extents, values_.data()));
        Count(&bad);
        begin += block.count();
        Advance(block.count() * 4);
        return absl::OkStatus();
      }));
    }
    Advance((tensor.count() - begin) * 4);
    Report(source.name(), tensor.layout.name, bad);
    return absl::OkStatus();
  }

  struct Bad {
    int64_t count = 0;
    float first = 0;
  };
  void Count(Bad* bad) const {
    for (const float value : values_) {
      if (std::isfinite(value)) continue;
      if (bad->count++ == 0) bad->first = value;
    }
  }
  void Report(const std::string& path, const std::string& tensor, const Bad& bad) {
    if (bad.count == 0) return;
    found_.bad.push_back(absl::StrCat(path, ": tensor ", tensor, ": found ", bad.count,
                                      " values that are not finite, the first ", bad.first,
                                      ", expected numbers"));
  }

  const VerifyProgress& progress_;
  Verified found_;
  int64_t total_ = 0;
  std::vector<float> values_;
};

}  // namespace

absl::StatusOr<Verified> VerifyModel(const std::string& name, const VerifyProgress& progress) {
  Verifier verifier(progress);
  RETURN_IF_ERROR(NamesCheckpoint(name) ? verifier.VerifyCheckpoint(name)
                                        : verifier.VerifyForeign(name));
  return verifier.Take();
}

}  // namespace stretto
