// SPDX-License-Identifier: Apache-2.0

// Reads a part piece by piece, encodes text and lines of JSON, and writes tokens and, where not all
// is trained on, their mask.

#include "worker/data/text/encode_part.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/mask.h"
#include "worker/data/text/conversation.h"

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
  // `mask` is null if all tokens are trained on.
  PartEncoder(const Tokenizer& tokenizer, const LineForm& lines, IndexedDatasetWriter* writer,
              IndexedDatasetWriter* mask)
      : tokenizer_(tokenizer), lines_(lines), writer_(*writer), mask_(mask) {}

  absl::Status Add(const InputFile& file, const Piece& piece) {
    ASSIGN_OR_RETURN(const std::string text, ReadPiece(file.path, piece));
    return file.json_lines ? AddLines(file.path, piece, text)
                           : AddText(file.path, piece.begin, text, piece.ends_document);
  }

 private:
  absl::StatusOr<std::vector<int32_t>> Encode(const std::string& path, int64_t offset,
                                              absl::string_view text) {
    absl::StatusOr<std::vector<int32_t>> tokens = tokenizer_.Encode(text);
    if (tokens.ok()) return tokens;
    const std::string place = offset == 0 ? "" : absl::StrCat(", text from byte ", offset, " on");
    return absl::Status(tokens.status().code(),
                        absl::StrCat(path, place, ": ", tokens.status().message()));
  }

  absl::Status AddText(const std::string& path, int64_t offset, absl::string_view text,
                       bool ends_document) {
    if (text.empty()) return absl::OkStatus();
    ASSIGN_OR_RETURN(std::vector<int32_t> tokens, Encode(path, offset, text));
    if (ends_document) tokens.push_back(tokenizer_.info().end_of_document);
    RETURN_IF_ERROR(writer_.AddSequence(tokens));
    if (ends_document) writer_.EndDocument();
    return absl::OkStatus();
  }

  // Each segment is encoded alone, as a prompt is when the model completes it. The end of the
  // document belongs to the last segment.
  absl::Status AddSegments(const std::string& path, int64_t offset,
                           const std::vector<Segment>& segments) {
    std::vector<int32_t> tokens, trained;
    for (const Segment& segment : segments) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> encoded, Encode(path, offset, segment.text));
      tokens.insert(tokens.end(), encoded.begin(), encoded.end());
      trained.resize(tokens.size(), segment.trained ? 1 : 0);
    }
    tokens.push_back(tokenizer_.info().end_of_document);
    trained.push_back(segments.back().trained ? 1 : 0);
    RETURN_IF_ERROR(writer_.AddDocument(tokens));
    return mask_->AddDocument(trained);
  }

  absl::Status AddLine(const std::string& path, int64_t offset, absl::string_view line) {
    const json object = json::parse(line.begin(), line.end(), nullptr, /*exceptions=*/false);
    if (lines_.chat != nullptr && !object.is_discarded()) {
      const auto segments = SegmentsOf(object, *lines_.chat);
      if (segments.ok()) return AddSegments(path, offset, *segments);
      return absl::Status(
          segments.status().code(),
          absl::StrCat(path, ": line at byte ", offset, ": ", segments.status().message()));
    }
    if (lines_.chat != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": line at byte ", offset, ": found ",
                                                     std::string(line.substr(0, 60)),
                                                     ", expected a line of JSON"));
    }
    const auto member = object.is_object() ? object.find(lines_.key) : object.end();
    if (member == object.end() || !member->is_string()) {
      const bool chat =
          object.is_object() && (object.contains("messages") || object.contains("completion"));
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": found ", std::string(line.substr(0, 60)), " in the line at byte ",
                       offset, ", expected a JSON object with text as \"", lines_.key, "\"",
                       chat ? "; --completions takes messages, and prompts with completions" : ""));
    }
    return AddText(path, offset, member->get_ref<const std::string&>(), true);
  }

  absl::Status AddLines(const std::string& path, const Piece& piece, absl::string_view text) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const absl::string_view line = text.substr(begin, end - begin);
      const int64_t offset = piece.begin + static_cast<int64_t>(begin);
      begin = end + 1;
      if (line.find_first_not_of(" \t\r") == absl::string_view::npos) continue;
      RETURN_IF_ERROR(AddLine(path, offset, line));
    }
    return absl::OkStatus();
  }

  const Tokenizer& tokenizer_;
  const LineForm& lines_;
  IndexedDatasetWriter& writer_;
  IndexedDatasetWriter* const mask_;
};

}  // namespace

absl::Status EncodePart(const PreparePlan& plan, const PreparePart& part,
                        const Tokenizer& tokenizer, const LineForm& lines,
                        const std::string& prefix, const std::function<void(int64_t)>& done) {
  ASSIGN_OR_RETURN(
      IndexedDatasetWriter writer,
      IndexedDatasetWriter::Create(prefix, TokenTypeFor(tokenizer.info().vocab_size), true));
  std::optional<IndexedDatasetWriter> mask;
  if (lines.chat != nullptr) {
    ASSIGN_OR_RETURN(IndexedDatasetWriter made,
                     IndexedDatasetWriter::Create(MaskPrefix(prefix), TokenType::kU8, true));
    mask.emplace(std::move(made));
  }
  PartEncoder encoder(tokenizer, lines, &writer, mask.has_value() ? &*mask : nullptr);
  for (const Piece& piece : part.pieces) {
    RETURN_IF_ERROR(encoder.Add(plan.files[piece.file], piece));
    done(piece.end - piece.begin);
  }
  if (writer.token_count() == 0) return WriteFileAtomic(prefix + ".empty", "");
  if (!part.pieces.back().ends_document) writer.EndDocument();  // no sequence without one
  RETURN_IF_ERROR(writer.Finish());                             // which removes an old mask
  return mask.has_value() ? mask->Finish() : absl::OkStatus();
}

}  // namespace stretto
