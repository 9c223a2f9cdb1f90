// SPDX-License-Identifier: Apache-2.0
#include "worker/exchange/llmc_source.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/beneath.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/engine/model/parameters.h"
#include "worker/exchange/mapped_source.h"
#include "worker/exchange/model_limits.h"

namespace stretto {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are read in place");

std::string DtypeOf(int32_t version) { return version == kLlmcF32 ? "F32" : "BF16"; }

absl::Status LlmcError(const std::string& path, absl::string_view field, int64_t found,
                       absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", field, ": found ", found, ", expected ", expected));
}

}  // namespace

absl::StatusOr<ModelSpec> ParseLlmcHeader(const LlmcHeader& header, int64_t file_size,
                                          const std::string& path) {
  if (header[0] != kLlmcModelMagic) {
    return LlmcError(path, "magic", header[0], absl::StrCat(kLlmcModelMagic, ", a model of llm.c"));
  }
  if (header[1] != kLlmcF32 && header[1] != kLlmcBf16) {
    return LlmcError(path, "version", header[1], "3 (f32) or 5 (bf16)");
  }
  const struct {
    const char* field;
    int index;
    int64_t most;
  } fields[] = {{"max_seq_len", 2, MaxOf("sequence_length")},
                {"vocab_size", 3, MaxOf("vocab_size")},
                {"num_layers", 4, MaxOf("layers")},
                {"num_heads", 5, kMaxForeignHeads},
                {"channels", 6, MaxOf("hidden")},
                {"padded_vocab_size", 7, MaxOf("vocab_size") + 127}};
  for (const auto& [field, index, most] : fields) {
    const int32_t value = header[index];
    if (value < 1 || value > most)
      return LlmcError(path, field, value, absl::StrCat("1 to ", most));
  }
  ModelSpec model{.architecture = ArchitectureOf(Family::kGpt),
                  .layers = header[4],
                  .hidden = header[6],
                  .heads = header[5],
                  .ffn_hidden = 4 * header[6],
                  .sequence_length = header[2],
                  .vocab_size = header[3]};
  model.tied_head = true;
  if (model.hidden % model.heads != 0) {
    return LlmcError(path, "num_heads", model.heads,
                     absl::StrCat("a divisor of channels ", model.hidden));
  }
  if (header[7] != model.padded_vocab()) {
    return LlmcError(path, "padded_vocab_size", header[7],
                     absl::StrCat(model.padded_vocab(), ", vocab_size ", model.vocab_size,
                                  " up to a multiple of 128"));
  }
  RETURN_IF_ERROR(CheckModel(model, path));
  // The format has the parameters, including padding, and nothing else.
  int64_t expected = static_cast<int64_t>(sizeof header);
  for (const Parameter& parameter : ParametersOf(model, 1, 0)) {
    expected += parameter.count() * DtypeBits(DtypeOf(header[1])) / 8;
  }
  if (file_size != expected) {
    return LlmcError(path, "size", file_size, absl::StrCat(expected, " bytes as its header says"));
  }
  return model;
}

absl::StatusOr<std::unique_ptr<ModelSource>> OpenLlmc(const std::string& name,
                                                      const std::string& path) {
  ASSIGN_OR_RETURN(FileDescriptor opened, OpenFile(path, O_RDONLY | O_NONBLOCK));
  struct stat info;
  if (::fstat(opened.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  LlmcHeader header{};
  if (!S_ISREG(info.st_mode) || info.st_size < static_cast<int64_t>(sizeof header)) {
    return LlmcError(path, "size", info.st_size,
                     absl::StrCat("a regular file of at least ", sizeof header, " bytes"));
  }
  RETURN_IF_ERROR(ReadFully(opened.get(), 0, sizeof header, header.data(), path));
  ASSIGN_OR_RETURN(const ModelSpec model, ParseLlmcHeader(header, info.st_size, path));
  const std::string dtype = DtypeOf(header[1]);
  // Shared, because each tensor's reader needs it.
  const auto file = std::make_shared<const FileDescriptor>(std::move(opened));
  std::vector<MappedTensor> tensors;
  int64_t offset = sizeof header;
  for (StoredLayout& layout : LlmcLayout(model)) {
    ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(dtype, layout.shape));
    tensors.push_back(
        {std::move(layout), dtype, [file, offset, path](int64_t begin, int64_t count, void* out) {
           return ReadFully(file->get(), offset + begin, count, out, path);
         }});
    offset += bytes;
  }
  return MakeMappedSource(name, model, std::move(tensors), {});
}

}  // namespace stretto
