// SPDX-License-Identifier: Apache-2.0

// Opens the configuration and the tensors, finds each tensor of the layout, with or without the
// prefix, and checks its shape and type. Every other tensor in the folder must be a known
// non-weight or a stored copy of a tied head. The weights are then a mapped source.

#include "worker/exchange/hf_source.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/exchange/hf_config.h"
#include "worker/exchange/mapped_source.h"
#include "worker/exchange/parameter_table.h"
#include "worker/exchange/tensor_folder.h"
#include "worker/exchange/tokenizer_files.h"

namespace stretto {
namespace {

constexpr int64_t kMaxConfigBytes = 16 << 20;
constexpr char kHead[] = "lm_head.weight";

absl::Status TensorError(const std::string& path, absl::string_view tensor, absl::string_view found,
                         absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": tensor ", tensor, ": found ", found, ", expected ", expected));
}

bool IsNoWeight(const std::string& name) {
  return absl::EndsWith(name, ".attn.bias") || absl::EndsWith(name, ".attn.masked_bias") ||
         absl::EndsWith(name, ".rotary_emb.inv_freq");
}

absl::Status CheckTensor(const TensorFolder::Entry& entry, const std::vector<int64_t>& shape) {
  const StoredTensor& tensor = *entry.tensor;
  if (tensor.dtype != "F32" && tensor.dtype != "BF16" && tensor.dtype != "F16") {
    return TensorError(entry.path, tensor.name, absl::StrCat("dtype ", tensor.dtype),
                       "F32, BF16 or F16");
  }
  if (tensor.shape == shape) return absl::OkStatus();
  return TensorError(entry.path, tensor.name, absl::StrCat("shape ", ShapeText(tensor.shape)),
                     absl::StrCat(ShapeText(shape), " as config.json says"));
}

// Checks a head that is tied and nevertheless stored.
absl::Status CheckSameBytes(const TensorFolder::Entry& head, const TensorFolder::Entry& embedding) {
  const std::string expected = absl::StrCat("those of ", embedding.tensor->name,
                                            ": tie_word_embeddings in config.json is true");
  RETURN_IF_ERROR(CheckTensor(head, embedding.tensor->shape));
  if (head.tensor->dtype != embedding.tensor->dtype) {
    return TensorError(head.path, kHead, absl::StrCat("dtype ", head.tensor->dtype), expected);
  }
  constexpr int64_t kBytes = 1 << 20;
  std::vector<char> a(kBytes), b(kBytes);
  for (int64_t begin = 0; begin < head.tensor->bytes; begin += kBytes) {
    const int64_t count = std::min(kBytes, head.tensor->bytes - begin);
    RETURN_IF_ERROR(head.file->Read(*head.tensor, begin, count, a.data()));
    RETURN_IF_ERROR(embedding.file->Read(*embedding.tensor, begin, count, b.data()));
    const auto differ = std::mismatch(a.begin(), a.begin() + count, b.begin()).first;
    if (differ != a.begin() + count) {
      return TensorError(head.path, kHead,
                         absl::StrCat("other bytes from ", begin + (differ - a.begin()), " on"),
                         expected);
    }
  }
  return absl::OkStatus();
}

// Checks the other tensors in the folder.
absl::Status CheckRest(const TensorFolder& folder, const ModelSpec& model,
                       const std::set<std::string>& used, const std::string& embedding) {
  for (const auto& [name, entry] : folder.tensors()) {
    if (used.count(name) != 0 || IsNoWeight(name)) continue;
    if (name == kHead && model.head_is_tied()) {
      RETURN_IF_ERROR(CheckSameBytes(entry, folder.tensors().at(embedding)));
      continue;
    }
    return TensorError(entry.path, name, "it",
                       "none of this name in a model of this configuration");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ModelSource>> OpenHf(const std::string& name,
                                                    const std::string& folder) {
  const std::string config = absl::StrCat(folder, "/", kHfConfigName);
  ASSIGN_OR_RETURN(const std::string text, ReadSmallFile(config, kMaxConfigBytes));
  ASSIGN_OR_RETURN(const ModelSpec model, ParseHfConfig(text, config));
  ASSIGN_OR_RETURN(TensorFolder opened, TensorFolder::Open(folder));
  // Shared, because each tensor's reader needs it.
  const auto weights = std::make_shared<const TensorFolder>(std::move(opened));
  const std::string prefix = HfFamilyOf(model.architecture.family).prefix;
  std::vector<StoredLayout> layouts = HfLayout(model);
  const bool prefixed = weights->tensors().count(layouts.front().name) != 0;
  std::vector<MappedTensor> tensors;
  std::set<std::string> used;
  for (StoredLayout& layout : layouts) {
    const std::string stored =
        prefixed ? layout.name : std::string(absl::StripPrefix(layout.name, prefix));
    const auto found = weights->tensors().find(stored);
    if (found == weights->tensors().end()) {
      return TensorError(folder, stored, "none",
                         absl::StrCat("F32, BF16 or F16 ", ShapeText(layout.shape)));
    }
    const TensorFolder::Entry& entry = found->second;
    RETURN_IF_ERROR(CheckTensor(entry, layout.shape));
    used.insert(stored);
    tensors.push_back({std::move(layout), entry.tensor->dtype,
                       [weights, &entry](int64_t begin, int64_t count, void* out) {
                         return entry.file->Read(*entry.tensor, begin, count, out);
                       }});
  }
  // In every family the embedding is the first tensor.
  const std::string embedding = tensors.front().layout.name;
  RETURN_IF_ERROR(
      CheckRest(*weights, model, used,
                prefixed ? embedding : std::string(absl::StripPrefix(embedding, prefix))));
  return MakeMappedSource(name, model, std::move(tensors), TokenizerFilesIn(folder));
}

}  // namespace stretto
