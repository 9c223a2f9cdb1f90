// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/attachments.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/data/tokenizer_info.h"
#include "worker/exchange/model_note.h"
#include "worker/exchange/tokenizer_files.h"

namespace stretto::trainer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxFileBytes = 64 << 20;

}  // namespace

Origin OriginOf(const ModelSource& source, const std::string& root) {
  const std::vector<std::string> files = source.tokenizer_files();
  return {.dtype = source.dtype(),
          .tokenizer = files.empty() ? "" : "files",
          .tokenizer_files = files,
          .root = root};
}

absl::StatusOr<Attachment> ReadAttachment(const std::string& file, const std::string& root) {
  const fs::path path = file;
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(path.parent_path(), error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("resolve ", path.string()));
  const fs::path base = root.empty() ? folder : fs::weakly_canonical(root, error);
  if (error) return ErrnoStatus(error.value(), absl::StrCat("resolve ", root));
  const std::string name = path.filename().string();
  ASSIGN_OR_RETURN(const std::string resolved,
                   PathBeneath(base, (folder / name).lexically_relative(base)));
  ASSIGN_OR_RETURN(std::string content, ReadSmallFile(resolved, kMaxFileBytes));
  return Attachment{name, std::move(content)};
}

absl::StatusOr<std::vector<Attachment>> AttachmentsOf(const ModelSpec& model, const Origin& origin,
                                                      const std::string& data_prefix,
                                                      const std::string& data_root) {
  ModelNote note{.model = model, .dtype = origin.dtype, .tokenizer = origin.tokenizer};
  // The note describes the trained model, which has no dropout.
  note.model.dropout = 0;
  std::vector<std::string> files = origin.tokenizer_files;
  std::string root = origin.root;
  if (!data_prefix.empty()) {
    const absl::StatusOr<TokenizerInfo> info = ReadTokenizerInfo(data_prefix);
    if (!info.ok() && !absl::IsNotFound(info.status())) return info.status();
    if (info.ok() && info->kind == "bytes") {
      note.tokenizer = "bytes";
      files.clear();
    } else if (auto found = TokenizerFilesIn(data_prefix + ".tokenizer"); !found.empty()) {
      note.tokenizer = "files";
      files = std::move(found);
      root = data_root;
    }
  }
  std::vector<Attachment> attachments = {{kModelNoteName, ModelNoteText(note)}};
  for (const std::string& path : files) {
    ASSIGN_OR_RETURN(Attachment file, ReadAttachment(path, root));
    attachments.push_back(std::move(file));
  }
  return attachments;
}

}  // namespace stretto::trainer
