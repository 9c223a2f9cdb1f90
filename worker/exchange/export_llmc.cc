// SPDX-License-Identifier: Apache-2.0

// Exports to checkpoints of llm.c: 256 numbers of 32 bits, then the values of LlmcLayout, in
// versions 3 (f32) and 5 (bf16). Their vocabulary is padded to a multiple of 128, like ours.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/exchange/export_folder.h"
#include "worker/exchange/export_layout.h"
#include "worker/exchange/export_model.h"
#include "worker/exchange/export_parts.h"
#include "worker/exchange/export_stream.h"
#include "worker/exchange/llmc_source.h"

namespace stretto {
namespace {

std::string HeaderText(const ModelSpec& model, bool bf16) {
  LlmcHeader header{};
  header[0] = kLlmcModelMagic;
  header[1] = bf16 ? kLlmcBf16 : kLlmcF32;
  header[2] = model.sequence_length;
  header[3] = model.vocab_size;
  header[4] = model.layers;
  header[5] = model.heads;
  header[6] = model.hidden;
  header[7] = model.padded_vocab();
  return {reinterpret_cast<const char*>(header.data()), sizeof header};
}

}  // namespace

absl::StatusOr<ExportSummary> ExportLlmc(const ModelSource& source, const ExportOptions& options) {
  RETURN_IF_ERROR(CheckLlmc(source.model()));
  ASSIGN_OR_RETURN(const std::string dtype, ExportDtype(source, options));
  if (dtype == "F16") {
    return absl::InvalidArgumentError(
        "llm.c cannot hold this model: dtype: found F16, expected F32 or BF16");
  }
  if (options.optimizer != nullptr) {
    return absl::InvalidArgumentError(
        "the optimizer's state: found format llmc, expected hf, which alone carries it");
  }
  ASSIGN_OR_RETURN(ExportFolder folder, ExportFolder::Create(options.output, options.overwrite));
  const std::string path = absl::StrCat(folder.temporary(), "/", kLlmcName);
  std::vector<ExportTensor> tensors = ExportTensors(source.model(), LlmcLayout(source.model()));
  for (ExportTensor& tensor : tensors) tensor.dtype = dtype;  // the file has a single type
  ExportSummary summary{.dtype = dtype, .files = 1};
  for (const ExportTensor& tensor : tensors) summary.bytes += tensor.bytes();
  summary.tensors = static_cast<int64_t>(tensors.size());
  {
    const FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
    RETURN_IF_ERROR(WriteAll(file.get(), HeaderText(source.model(), dtype == "BF16"), path));
    ExportMeter meter(options, summary.bytes);
    ExportStream stream(source, tensors, &meter);
    for (const ExportTensor& tensor : tensors) {
      ASSIGN_OR_RETURN(const void* const data, stream.Fetch(tensor));
      const absl::string_view bytes(static_cast<const char*>(data), tensor.bytes());
      RETURN_IF_ERROR(WriteAll(file.get(), bytes, path));
    }
    if (::fsync(file.get()) != 0) return ErrnoStatus(errno, absl::StrCat("fsync ", path));
  }
  RETURN_IF_ERROR(CopyTokenizer(source, folder.temporary()));
  RETURN_IF_ERROR(folder.Finish());
  return summary;
}

}  // namespace stretto
