#include "worker/trainer/attachments.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/data/tokenizer_info.h"
#include "worker/trainer/exchange/model_note.h"
#include "worker/trainer/exchange/tokenizer_files.h"

namespace stretto::trainer {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t kMaxFile = 64 << 20;

absl::StatusOr<Attachment> Read(const std::string& path) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("stat ", path));
  if (size > kMaxFile) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": found ", size,
                                                   " bytes, expected at most ", kMaxFile,
                                                   " in a file of a tokenizer"));
  }
  ASSIGN_OR_RETURN(std::string content, ReadFile(path));
  return Attachment{fs::path(path).filename().string(), std::move(content)};
}

}  // namespace

Origin OriginOf(const ModelSource& source) {
  const std::vector<std::string> files = source.tokenizer_files();
  return {
      .dtype = source.dtype(), .tokenizer = files.empty() ? "" : "files", .tokenizer_files = files};
}

absl::StatusOr<std::vector<Attachment>> AttachmentsOf(const ModelSpec& model, const Origin& origin,
                                                      const std::string& data_prefix) {
  ModelNote note{.model = model, .dtype = origin.dtype, .tokenizer = origin.tokenizer};
  note.model.dropout = 0;
  std::vector<std::string> files = origin.tokenizer_files;
  if (!data_prefix.empty()) {
    const absl::StatusOr<TokenizerInfo> info = ReadTokenizerInfo(data_prefix);
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    if (info.ok() && info->kind == "bytes") {
      note.tokenizer = "bytes";
      files.clear();
    } else if (auto found = TokenizerFilesIn(data_prefix + ".tokenizer"); !found.empty()) {
      note.tokenizer = "files";
      files = std::move(found);
    }
  }
  std::vector<Attachment> attachments = {{kModelNoteName, ModelNoteText(note)}};
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(Attachment file, Read(path));
    attachments.push_back(std::move(file));
  }
  return attachments;
}

}  // namespace stretto::trainer
