// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/encode_part.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/data/indexed_dataset.h"

namespace stretto {
namespace {

using nlohmann::json;

absl::StatusOr<std::string> ReadPiece(const std::string& path, const Piece& piece) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  std::string text(piece.end - piece.begin, '\0');
  for (size_t at = 0; at < text.size();) {
    const ssize_t read = ::pread(file.get(), text.data() + at, text.size() - at,
                                 piece.begin + static_cast<int64_t>(at));
    if (read < 0 && errno == EINTR) continue;
    if (read < 0) return ErrnoStatus(errno, absl::StrCat("read ", path));
    if (read == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": found its end at byte ", piece.begin + static_cast<int64_t>(at),
                       ", expected ", piece.end, " bytes: it shrank while it was read"));
    }
    at += read;
  }
  return text;
}

class PartEncoder {
 public:
  PartEncoder(const Tokenizer& tokenizer, const std::string& json_key, IndexedDatasetWriter* writer)
      : tokenizer_(tokenizer), json_key_(json_key), writer_(*writer) {}

  absl::Status Add(const InputFile& file, const Piece& piece) {
    ASSIGN_OR_RETURN(const std::string text, ReadPiece(file.path, piece));
    return file.json_lines ? AddLines(file.path, piece, text)
                           : AddText(file.path, piece.begin, text, piece.ends_document);
  }

 private:
  absl::Status AddText(const std::string& path, int64_t offset, absl::string_view text,
                       bool ends_document) {
    if (text.empty()) return absl::OkStatus();
    absl::StatusOr<std::vector<int32_t>> tokens = tokenizer_.Encode(text);
    if (!tokens.ok()) {
      const std::string place = offset == 0 ? "" : absl::StrCat(", text from byte ", offset, " on");
      return absl::Status(tokens.status().code(),
                          absl::StrCat(path, place, ": ", tokens.status().message()));
    }
    if (ends_document) tokens->push_back(tokenizer_.info().end_of_document);
    RETURN_IF_ERROR(writer_.AddSequence(*tokens));
    if (ends_document) writer_.EndDocument();
    return absl::OkStatus();
  }

  absl::Status AddLines(const std::string& path, const Piece& piece, absl::string_view text) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const absl::string_view line = text.substr(begin, end - begin);
      const int64_t offset = piece.begin + static_cast<int64_t>(begin);
      begin = end + 1;
      if (line.find_first_not_of(" \t\r") == absl::string_view::npos) continue;
      const json object = json::parse(line.begin(), line.end(), nullptr, /*exceptions=*/false);
      const auto member = object.is_object() ? object.find(json_key_) : object.end();
      if (member == object.end() || !member->is_string()) {
        return absl::InvalidArgumentError(
            absl::StrCat(path, ": found ", std::string(line.substr(0, 60)), " in the line at byte ",
                         offset, ", expected a JSON object with text as \"", json_key_, "\""));
      }
      RETURN_IF_ERROR(AddText(path, offset, member->get_ref<const std::string&>(), true));
    }
    return absl::OkStatus();
  }

  const Tokenizer& tokenizer_;
  const std::string& json_key_;
  IndexedDatasetWriter& writer_;
};

}  // namespace

absl::Status EncodePart(const PreparePlan& plan, const PreparePart& part,
                        const Tokenizer& tokenizer, const std::string& json_key,
                        const std::string& prefix, const std::function<void(int64_t)>& done) {
  ASSIGN_OR_RETURN(
      IndexedDatasetWriter writer,
      IndexedDatasetWriter::Create(prefix, TokenTypeFor(tokenizer.info().vocab_size), true));
  PartEncoder encoder(tokenizer, json_key, &writer);
  for (const Piece& piece : part.pieces) {
    RETURN_IF_ERROR(encoder.Add(plan.files[piece.file], piece));
    done(piece.end - piece.begin);
  }
  if (writer.token_count() == 0) return WriteFileAtomic(prefix + ".empty", "");
  if (!part.pieces.back().ends_document) writer.EndDocument();  // no sequence without one
  return writer.Finish();
}

}  // namespace stretto
