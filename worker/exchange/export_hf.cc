// SPDX-License-Identifier: Apache-2.0

// Exports to folders that `transformers` loads.
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/engine/model/parameters.h"
#include "worker/exchange/export_config.h"
#include "worker/exchange/export_folder.h"
#include "worker/exchange/export_layout.h"
#include "worker/exchange/export_model.h"
#include "worker/exchange/export_parts.h"
#include "worker/exchange/export_stream.h"
#include "worker/exchange/hf_config.h"
#include "worker/exchange/tensor_folder.h"

namespace stretto {
namespace {

using Tensors = std::vector<ExportTensor>;

// Fills shards in order, each as full as possible; a tensor above the limit has its own shard.
std::vector<Tensors> CutShards(const Tensors& tensors, int64_t max_bytes) {
  std::vector<Tensors> shards(1);
  int64_t bytes = 0;
  for (const ExportTensor& tensor : tensors) {
    const int64_t size = tensor.bytes();
    if (!shards.back().empty() && size > max_bytes - bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(tensor);
    bytes += size;
  }
  return shards;
}

std::string ShardName(size_t index, size_t count) {
  return count == 1 ? kHfWeightsName
                    : absl::StrFormat("model-%05d-of-%05d.safetensors", index + 1, count);
}

std::string IndexText(const std::vector<Tensors>& shards, int64_t total_bytes) {
  nlohmann::ordered_json index;
  index["metadata"]["total_size"] = total_bytes;
  std::map<std::string, std::string> files;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const ExportTensor& tensor : shards[i])
      files[tensor.layout.name] = ShardName(i, shards.size());
  }
  index["weight_map"] = files;
  return index.dump(2) + "\n";
}

absl::Status WriteShards(const std::string& folder, const std::vector<Tensors>& shards,
                         ExportStream* stream) {
  for (size_t i = 0; i < shards.size(); ++i) {
    std::vector<SourceTensor> sources;
    for (const ExportTensor& tensor : shards[i]) {
      sources.push_back({tensor.layout.name, tensor.dtype, tensor.layout.shape,
                         TensorData([stream, &tensor] { return stream->Fetch(tensor); })});
    }
    const std::string path = absl::StrCat(folder, "/", ShardName(i, shards.size()));
    RETURN_IF_ERROR(WriteSafetensors(path, sources, {{"format", "pt"}}).status());
  }
  return absl::OkStatus();
}

// The bytes of the optimizer's state: two values per parameter.
int64_t OptimizerBytes(const ModelSpec& model) {
  int64_t bytes = 0;
  for (const Parameter& parameter : ParametersOf(model, 1, 0)) bytes += parameter.count() * 8;
  return bytes;
}

absl::Status WriteOptimizer(const std::string& folder, const ModelSpec& model,
                            const Checkpoint& checkpoint, ExportMeter* meter) {
  std::vector<float> values;
  std::vector<SourceTensor> sources;
  for (const Parameter& parameter : ParametersOf(model, 1, 0)) {
    for (const char* moment : {".m", ".v"}) {
      const std::string name = parameter.name + moment;
      const auto fetch = [&, name, parameter]() -> absl::StatusOr<const void*> {
        values.resize(parameter.count());
        RETURN_IF_ERROR(
            checkpoint.Read(name, "F32", parameter.starts, parameter.extents, values.data()));
        RETURN_IF_ERROR(meter->Add(parameter.count() * 4));
        return values.data();
      };
      sources.push_back({name, "F32", parameter.shape, TensorData(fetch)});
    }
  }
  std::map<std::string, std::string> metadata = {
      {"format", "pt"}, {kTrainingStateKey, TrainingStateText(checkpoint.manifest().state)}};
  if (checkpoint.manifest().FindAttachment(kSettingsName) != nullptr) {
    ASSIGN_OR_RETURN(metadata[kSettingsKey],
                     ReadFile(absl::StrCat(checkpoint.folder(), "/", kSettingsName)));
  }
  const std::string path = absl::StrCat(folder, "/", kOptimizerFileName);
  return WriteSafetensors(path, sources, metadata).status();
}

absl::Status WriteConfigs(const ModelSource& source, const std::string& dtype,
                          const std::string& folder) {
  const SpecialTokens tokens = SpecialTokensOf(source.tokenizer_files(), source.model().vocab_size);
  RETURN_IF_ERROR(WriteFileAtomic(absl::StrCat(folder, "/", kHfConfigName),
                                  HfConfigText(source.model(), dtype, tokens)));
  const std::string generation = GenerationConfigText(tokens);
  if (generation.empty()) return absl::OkStatus();
  return WriteFileAtomic(absl::StrCat(folder, "/", kGenerationConfigName), generation);
}

}  // namespace

absl::StatusOr<ExportSummary> ExportHf(const ModelSource& source, const ExportOptions& options) {
  const ModelSpec& model = source.model();
  RETURN_IF_ERROR(CheckHf(model));
  ASSIGN_OR_RETURN(const std::string dtype, ExportDtype(source, options));
  if (options.optimizer != nullptr && dtype != "F32") {
    return absl::InvalidArgumentError(
        absl::StrCat("the optimizer's state: found dtype ", dtype,
                     ", expected F32: it goes with exact weights; --dtype f32"));
  }
  ASSIGN_OR_RETURN(ExportFolder folder, ExportFolder::Create(options.output, options.overwrite));
  Tensors tensors = ExportTensors(model, HfLayout(model));
  for (ExportTensor& tensor : tensors) {
    tensor.dtype = options.dtype.empty() ? source.dtype_of(tensor.boxes.front().parameter) : dtype;
  }
  const std::vector<Tensors> shards = CutShards(tensors, options.max_shard_bytes);
  ExportSummary summary{.dtype = dtype,
                        .tensors = static_cast<int64_t>(tensors.size()),
                        .files = static_cast<int>(shards.size())};
  for (const ExportTensor& tensor : tensors) summary.bytes += tensor.bytes();
  const int64_t total = summary.bytes;
  if (options.optimizer != nullptr) summary.bytes += OptimizerBytes(model);
  ExportMeter meter(options, summary.bytes);
  RETURN_IF_ERROR(WriteConfigs(source, dtype, folder.temporary()));
  RETURN_IF_ERROR(CopyTokenizer(source, folder.temporary()));
  {
    ExportStream stream(source, tensors, &meter);
    RETURN_IF_ERROR(WriteShards(folder.temporary(), shards, &stream));
  }
  if (shards.size() > 1) {
    RETURN_IF_ERROR(WriteFileAtomic(absl::StrCat(folder.temporary(), "/", kHfIndexName),
                                    IndexText(shards, total)));
  }
  if (options.optimizer != nullptr) {
    RETURN_IF_ERROR(WriteOptimizer(folder.temporary(), model, *options.optimizer, &meter));
  }
  RETURN_IF_ERROR(folder.Finish());
  return summary;
}

}  // namespace stretto
