// SPDX-License-Identifier: Apache-2.0

// Checks the header and the size of each file and joins the files into one stream: starts_ has the
// position of each file's first token, and a position is found there by binary search. A document
// is found by searching for its first token, file by file.

#include "worker/data/llmc_tokens.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"

namespace stretto {
namespace {

constexpr int64_t kHeaderBytes = 256 * sizeof(int32_t);

struct Kind {
  int32_t magic, version;
  TokenType type;
  int32_t document;  // the token that begins one
};
constexpr Kind kKinds[] = {{20240520, 1, TokenType::kU16, 50256},
                           {20240801, 7, TokenType::kU32, 128000}};

const Kind& KindOf(TokenType type) { return type == kKinds[0].type ? kKinds[0] : kKinds[1]; }

template <class T, class U>
absl::Status Malformed(const std::string& path, const std::string& field, int64_t byte,
                       const T& found, const U& expected) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", field, " at byte ", byte, ": found ",
                                                 found, ", expected ", expected));
}

absl::StatusOr<TokenFile> OpenFile(const std::string& path) {
  ASSIGN_OR_RETURN(MappedFile bytes, MappedFile::Open(path));
  if (bytes.size() < kHeaderBytes) {
    return Malformed(path, "header", 0, absl::StrCat("a file of ", bytes.size(), " bytes"),
                     absl::StrCat("at least ", kHeaderBytes));
  }
  int32_t header[3];
  std::memcpy(header, bytes.data(), sizeof(header));
  const Kind* kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                  [&](const Kind& k) { return k.magic == header[0]; });
  if (kind == std::end(kKinds)) {
    return Malformed(
        path, "magic", 0, header[0],
        absl::StrCat(kKinds[0].magic, " or ", kKinds[1].magic, ", a token file of llm.c"));
  }
  if (header[1] != kind->version) return Malformed(path, "version", 4, header[1], kind->version);
  if (header[2] < 1) return Malformed(path, "number of tokens", 8, header[2], "at least 1");
  const int64_t expected = kHeaderBytes + header[2] * static_cast<int64_t>(SizeOf(kind->type));
  if (bytes.size() != expected) {
    return Malformed(path, "number of tokens", 8,
                     absl::StrCat(header[2], " in a file of ", bytes.size(), " bytes"),
                     absl::StrCat("a file of ", expected, " bytes"));
  }
  return TokenFile{
      .path = path, .bytes = std::move(bytes), .type = kind->type, .first = kHeaderBytes};
}

// Returns the index of the first of `count` tokens at `from` that equals `token`, or `count` if
// none does.
template <class T>
int64_t IndexOf(T token, const char* from, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    if (std::memcmp(from + i * static_cast<int64_t>(sizeof(T)), &token, sizeof(T)) == 0) return i;
  }
  return count;
}

}  // namespace

absl::StatusOr<LlmcTokens> LlmcTokens::Open(std::string name,
                                            const std::vector<std::string>& paths) {
  LlmcTokens tokens(std::move(name));
  for (const std::string& path : paths) {
    ASSIGN_OR_RETURN(TokenFile file, OpenFile(path));
    if (!tokens.files_.empty() && file.type != tokens.type()) {
      return Malformed(
          path, "version", 4, KindOf(file.type).version,
          absl::StrCat(KindOf(tokens.type()).version, " as in ", tokens.files_[0].path));
    }
    const int64_t bytes = file.bytes.size() - kHeaderBytes;
    tokens.starts_.push_back(tokens.token_count() +
                             bytes / static_cast<int64_t>(SizeOf(file.type)));
    tokens.files_.push_back(std::move(file));
  }
  return tokens;
}

int64_t LlmcTokens::FindDocument(int64_t begin, int64_t end) const {
  if (begin == 0) return 0;
  const int32_t token = KindOf(type()).document;
  const auto item = static_cast<int64_t>(SizeOf(type()));
  while (begin < end) {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), begin);
    const size_t file = next - starts_.begin() - 1;
    const int64_t count = std::min(end, *next) - begin;
    const char* from = files_[file].bytes.data() + kHeaderBytes + (begin - starts_[file]) * item;
    const int64_t found = type() == TokenType::kU16
                              ? IndexOf(static_cast<uint16_t>(token), from, count)
                              : IndexOf(static_cast<uint32_t>(token), from, count);
    begin += found;
    if (found < count) return begin;
  }
  return end;
}

absl::Status LlmcTokens::Read(int64_t begin, int32_t vocab_size, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  if (begin < 0 || count > token_count() || begin > token_count() - count) {
    return absl::OutOfRangeError(absl::StrCat(name_, ": found a read of ", count,
                                              " tokens at token ", begin,
                                              ", expected an end within ", token_count()));
  }
  const auto item = static_cast<int64_t>(SizeOf(type()));
  while (!out.empty()) {
    const auto next = std::upper_bound(starts_.begin(), starts_.end(), begin);
    const size_t file = next - starts_.begin() - 1;
    const auto take = std::min<size_t>(out.size(), *next - begin);
    RETURN_IF_ERROR(files_[file].Read(kHeaderBytes + (begin - starts_[file]) * item, vocab_size,
                                      out.first(take)));
    out = out.subspan(take);
    begin += static_cast<int64_t>(take);
  }
  return absl::OkStatus();
}

}  // namespace stretto
