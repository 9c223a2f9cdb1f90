// SPDX-License-Identifier: Apache-2.0
#include "worker/data/text/prepare_plan.h"

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/text/conversation.h"
#include "worker/data/text/sha256.h"

namespace stretto {
namespace {

constexpr int kFormat = 1;  // of parts; another number discards old ones

// Arguments: the byte before and the byte after.
using CanCut = std::function<bool(char, char)>;

// Returns the first place at or after `wanted` where the text may be cut; `end` if there is none.
int64_t CutAt(const char* text, int64_t wanted, int64_t end, const CanCut& can_cut) {
  for (int64_t at = wanted; at < end; ++at) {
    if (can_cut(text[at - 1], text[at])) return at;
  }
  return end;
}

absl::Status AddPieces(int index, const InputFile& file, const PieceSizes& sizes,
                       const Tokenizer& tokenizer, std::vector<Piece>* pieces) {
  if (file.size == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const MappedFile text, MappedFile::Open(file.path));
  const CanCut can_cut =
      file.json_lines ? CanCut([](char before, char) { return before == '\n'; })
                      : [&](char before, char after) { return tokenizer.CanCut(before, after); };
  for (int64_t begin = 0; begin < text.size();) {
    const int64_t limit = std::min(text.size(), begin + sizes.longest_whole);
    const int64_t end = text.size() - begin <= sizes.piece
                            ? text.size()
                            : CutAt(text.data(), begin + sizes.piece, limit, can_cut);
    if (end == limit && limit < text.size() &&
        !can_cut(text.data()[limit - 1], text.data()[limit])) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path, ": found no place to split in ", sizes.longest_whole, " bytes from byte ",
          begin, " on, expected ", file.json_lines ? "a shorter line" : "a shorter document",
          " (this tokenizer encodes each as a whole)"));
    }
    pieces->push_back({index, begin, end, file.json_lines || end == text.size()});
    begin = end;
  }
  return absl::OkStatus();
}

std::string Fingerprint(const PreparePlan& plan, const PieceSizes& sizes,
                        const Tokenizer& tokenizer, const LineForm& lines) {
  const std::string form = lines.chat == nullptr ? lines.key : absl::StrCat("\n", lines.chat->name);
  const TokenizerInfo& info = tokenizer.info();
  std::string all =
      absl::StrCat(kFormat, "\n", info.kind, " ", info.hash, " ", info.vocab_size, " ",
                   info.end_of_document, "\n", form, "\n", sizes.piece, " ", sizes.part, "\n");
  for (const InputFile& file : plan.files) {
    absl::StrAppend(&all, file.size, " ", file.modified, " ", file.path, "\n");
  }
  return Sha256(all);
}

}  // namespace

absl::StatusOr<PreparePlan> MakePreparePlan(std::vector<InputFile> files, const PieceSizes& sizes,
                                            const Tokenizer& tokenizer, const LineForm& lines) {
  PreparePlan plan;
  plan.files = std::move(files);
  std::vector<Piece> pieces;
  for (size_t i = 0; i < plan.files.size(); ++i) {
    if (plan.files[i].binary) continue;
    RETURN_IF_ERROR(AddPieces(i, plan.files[i], sizes, tokenizer, &pieces));
  }
  int64_t bytes = sizes.part;  // of the current part
  for (const Piece& piece : pieces) {
    if (bytes >= sizes.part) {
      plan.parts.emplace_back();
      bytes = 0;
    }
    plan.parts.back().pieces.push_back(piece);
    bytes += piece.end - piece.begin;
    plan.bytes += piece.end - piece.begin;
  }
  plan.fingerprint = Fingerprint(plan, sizes, tokenizer, lines);
  return plan;
}

}  // namespace stretto
