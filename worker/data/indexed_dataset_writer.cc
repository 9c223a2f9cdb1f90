// SPDX-License-Identifier: Apache-2.0

// Streams tokens to PREFIX.bin.tmp and keeps lengths and boundaries in memory until Finish, which
// writes the index. CommitDataset removes the old index, tokenizer and mask before it renames the
// new files, so that an old index never meets new tokens.

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/data/index_layout.h"
#include "worker/data/indexed_dataset.h"
#include "worker/data/mask.h"
#include "worker/data/tokenizer_files.h"

namespace stretto {
namespace {

constexpr size_t kFlushBytes = size_t{1} << 20;

template <class T>
void Put(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

template <class T>
bool PutToken(int32_t token, std::string* out) {
  if (token < 0 || token > std::numeric_limits<T>::max()) return false;
  Put(static_cast<T>(token), out);
  return true;
}

bool PutTokenAs(TokenType type, int32_t token, std::string* out) {
  switch (type) {
    case TokenType::kU8:
      return PutToken<uint8_t>(token, out);
    case TokenType::kI8:
      return PutToken<int8_t>(token, out);
    case TokenType::kI16:
      return PutToken<int16_t>(token, out);
    case TokenType::kI32:
      return PutToken<int32_t>(token, out);
    case TokenType::kI64:
      return PutToken<int64_t>(token, out);
    case TokenType::kU16:
      return PutToken<uint16_t>(token, out);
    case TokenType::kU32:
      break;  // the format has no code for it
  }
  STRETTO_CHECK(false);
}

absl::Status Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  return ErrnoStatus(errno, absl::StrCat("rename ", from, " to ", to));
}

}  // namespace

absl::Status CheckNoDataset(const std::string& prefix) {
  for (const char* suffix : {".idx", ".bin", ".tokenizer"}) {
    const std::string path = prefix + suffix;
    if (::access(path.c_str(), F_OK) == 0) {
      return absl::AlreadyExistsError(
          absl::StrCat("output ", path, " exists, expected a new prefix or leave to overwrite"));
    }
  }
  return absl::OkStatus();
}

absl::Status CommitDataset(const std::string& prefix) {
  const std::string index_path = prefix + ".idx", bin_path = prefix + ".bin";
  // An old index must never meet the new tokens, even after a crash between the two renames.
  if (::unlink(index_path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, absl::StrCat("remove ", index_path));
  }
  // The same holds for the note of an old tokenizer, and for an old mask.
  const std::string mask = MaskPrefix(prefix);
  for (const std::string& old : {prefix + ".tokenizer.json", mask + ".idx", mask + ".bin"}) {
    if (::unlink(old.c_str()) != 0 && errno != ENOENT) {
      return ErrnoStatus(errno, absl::StrCat("remove ", old));
    }
  }
  RETURN_IF_ERROR(RemoveTokenizerFiles(prefix));
  RETURN_IF_ERROR(Rename(bin_path + ".tmp", bin_path));
  RETURN_IF_ERROR(Rename(index_path + ".tmp", index_path));
  const std::filesystem::path parent = std::filesystem::path(prefix).parent_path();
  return SyncPath(parent.empty() ? "." : parent.string());
}

IndexedDatasetWriter::IndexedDatasetWriter(std::string prefix, TokenType type, FileDescriptor bin)
    : prefix_(std::move(prefix)), type_(type), bin_(std::move(bin)) {}

absl::StatusOr<IndexedDatasetWriter> IndexedDatasetWriter::Create(const std::string& prefix,
                                                                  TokenType type, bool overwrite) {
  if (!overwrite) RETURN_IF_ERROR(CheckNoDataset(prefix));
  const std::string path = prefix + ".bin.tmp";
  FileDescriptor bin(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!bin.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  return IndexedDatasetWriter(prefix, type, std::move(bin));
}

IndexedDatasetWriter::~IndexedDatasetWriter() {
  if (bin_.valid()) ::unlink(TemporaryBin().c_str());
}

absl::Status IndexedDatasetWriter::Flush() {
  RETURN_IF_ERROR(WriteAll(bin_.get(), buffer_, TemporaryBin()));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status IndexedDatasetWriter::AddSequence(std::span<const int32_t> tokens) {
  STRETTO_CHECK(bin_.valid());
  if (std::cmp_greater(tokens.size(), std::numeric_limits<int32_t>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(prefix_, ": found a sequence of ", tokens.size(),
                                                   " tokens, expected at most 2147483647"));
  }
  for (int32_t token : tokens) {
    if (!PutTokenAs(type_, token, &buffer_)) {
      return absl::InvalidArgumentError(absl::StrCat(prefix_, ": found token ", token,
                                                     " in sequence ", lengths_.size(),
                                                     ", expected one that fits ", NameOf(type_)));
    }
    if (buffer_.size() >= kFlushBytes) RETURN_IF_ERROR(Flush());
  }
  lengths_.push_back(static_cast<int32_t>(tokens.size()));
  token_count_ += static_cast<int64_t>(tokens.size());
  return absl::OkStatus();
}

void IndexedDatasetWriter::EndDocument() {
  documents_.push_back(static_cast<int64_t>(lengths_.size()));
}

absl::Status IndexedDatasetWriter::AddDocument(std::span<const int32_t> tokens) {
  RETURN_IF_ERROR(AddSequence(tokens));
  EndDocument();
  return absl::OkStatus();
}

std::string IndexedDatasetWriter::Index() const {
  std::string index(kIndexMagic, sizeof(kIndexMagic));
  Put<uint64_t>(1, &index);
  Put(static_cast<uint8_t>(type_), &index);
  Put<uint64_t>(lengths_.size(), &index);
  Put<uint64_t>(documents_.size(), &index);
  for (int32_t length : lengths_) Put(length, &index);
  int64_t pointer = 0;
  for (int32_t length : lengths_) {
    Put(pointer, &index);
    pointer += length * static_cast<int64_t>(SizeOf(type_));
  }
  for (int64_t document : documents_) Put(document, &index);
  return index;
}

absl::Status IndexedDatasetWriter::Finish() {
  STRETTO_CHECK(bin_.valid());
  RETURN_IF_ERROR(Flush());
  if (::fsync(bin_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("fsync ", TemporaryBin()));
  // Everything that needs space is written first, so that a full disk leaves an old data set
  // unchanged.
  RETURN_IF_ERROR(WriteFileAtomic(prefix_ + ".idx.tmp", Index()));
  RETURN_IF_ERROR(CommitDataset(prefix_));
  bin_ = FileDescriptor();
  return absl::OkStatus();
}

}  // namespace stretto
