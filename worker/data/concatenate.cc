// SPDX-License-Identifier: Apache-2.0

// Copies the tokens of the parts, then makes one pass over the parts for each array of the index
// (lengths, pointers, document boundaries), so memory does not grow with the data. Boundaries are
// counted in sequences of the result. A part whose last document is open leaves out its last
// boundary, and the document continues in the next part. Both files are written under temporary
// names and committed together.

#include "worker/data/concatenate.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/data/index_layout.h"
#include "worker/data/indexed_dataset.h"

namespace stretto {
namespace {

constexpr size_t kBlock = size_t{1} << 20;
constexpr char kBinTmp[] = ".bin.tmp", kIndexTmp[] = ".idx.tmp";

// Writes a file sequentially.
class OutputFile {
 public:
  static absl::StatusOr<OutputFile> Create(const std::string& path) {
    FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
    return OutputFile(path, std::move(file));
  }

  template <class T>
  absl::Status Put(T value) {
    return Append({reinterpret_cast<const char*>(&value), sizeof(T)});
  }

  absl::Status Append(absl::string_view bytes) {
    buffer_.append(bytes.data(), bytes.size());
    return buffer_.size() < kBlock ? absl::OkStatus() : Flush();
  }

  absl::Status Finish() {
    RETURN_IF_ERROR(Flush());
    if (::fsync(file_.get()) != 0) return ErrnoStatus(errno, absl::StrCat("fsync ", path_));
    return absl::OkStatus();
  }

 private:
  OutputFile(std::string path, FileDescriptor file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Flush() {
    RETURN_IF_ERROR(WriteAll(file_.get(), buffer_, path_));
    buffer_.clear();
    return absl::OkStatus();
  }

  std::string path_;
  FileDescriptor file_;
  std::string buffer_;
};

struct Totals {
  TokenType type = TokenType::kU16;
  uint64_t sequences = 0, boundaries = 1;  // document boundaries, including the one at 0
};

absl::StatusOr<Totals> Add(const std::vector<DatasetPart>& parts) {
  Totals totals;
  for (size_t i = 0; i < parts.size(); ++i) {
    ASSIGN_OR_RETURN(const IndexedDataset part, IndexedDataset::Open(parts[i].prefix));
    if (i == 0) totals.type = part.type();
    if (part.type() != totals.type) {
      return absl::InvalidArgumentError(absl::StrCat(parts[i].prefix, ": found tokens of type ",
                                                     NameOf(part.type()), ", expected ",
                                                     NameOf(totals.type)));
    }
    totals.sequences += static_cast<uint64_t>(part.sequence_count());
    totals.boundaries += static_cast<uint64_t>(part.document_count() - (parts[i].open ? 1 : 0));
  }
  return totals;
}

absl::Status CopyTokens(const std::vector<DatasetPart>& parts, const std::string& path) {
  ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(path));
  for (const DatasetPart& part : parts) {
    ASSIGN_OR_RETURN(const MappedFile tokens, MappedFile::Open(part.prefix + ".bin"));
    const absl::string_view bytes(tokens.data(), tokens.size());
    for (size_t at = 0; at < bytes.size(); at += kBlock) {
      RETURN_IF_ERROR(out.Append(bytes.substr(at, kBlock)));
    }
  }
  return out.Finish();
}

// Each array consists of the parts' arrays, so it takes a pass over the parts.
absl::Status WriteIndex(const std::vector<DatasetPart>& parts, const Totals& totals,
                        const std::string& path) {
  ASSIGN_OR_RETURN(OutputFile out, OutputFile::Create(path));
  RETURN_IF_ERROR(out.Append({kIndexMagic, sizeof(kIndexMagic)}));
  RETURN_IF_ERROR(out.Put<uint64_t>(1));
  RETURN_IF_ERROR(out.Put(static_cast<uint8_t>(totals.type)));
  RETURN_IF_ERROR(out.Put(totals.sequences));
  RETURN_IF_ERROR(out.Put(totals.boundaries));
  for (const DatasetPart& each : parts) {
    ASSIGN_OR_RETURN(const IndexedDataset part, IndexedDataset::Open(each.prefix));
    for (int64_t i = 0; i < part.sequence_count(); ++i) {
      RETURN_IF_ERROR(out.Put(static_cast<int32_t>(part.SequenceLength(i))));
    }
  }
  int64_t pointer = 0;
  for (const DatasetPart& each : parts) {
    ASSIGN_OR_RETURN(const IndexedDataset part, IndexedDataset::Open(each.prefix));
    for (int64_t i = 0; i < part.sequence_count(); ++i) {
      RETURN_IF_ERROR(out.Put(pointer));
      pointer += part.SequenceLength(i) * static_cast<int64_t>(SizeOf(totals.type));
    }
  }
  RETURN_IF_ERROR(out.Put(int64_t{0}));
  int64_t before = 0;  // sequences of earlier parts
  for (const DatasetPart& each : parts) {
    ASSIGN_OR_RETURN(const IndexedDataset part, IndexedDataset::Open(each.prefix));
    const int64_t ends = part.document_count() - (each.open ? 1 : 0);
    for (int64_t i = 1; i <= ends; ++i) {
      RETURN_IF_ERROR(out.Put(before + part.FirstSequence(i)));
    }
    before += part.sequence_count();
  }
  return out.Finish();
}

void RemoveStaged(const std::string& prefix) {
  for (const char* suffix : {kBinTmp, kIndexTmp}) ::unlink((prefix + suffix).c_str());
}

}  // namespace

absl::Status StageConcatenation(const std::vector<DatasetPart>& parts, const std::string& prefix) {
  ASSIGN_OR_RETURN(const Totals totals, Add(parts));
  absl::Cleanup remove = [&] { RemoveStaged(prefix); };
  RETURN_IF_ERROR(CopyTokens(parts, prefix + kBinTmp));
  RETURN_IF_ERROR(WriteIndex(parts, totals, prefix + kIndexTmp));
  std::move(remove).Cancel();
  return absl::OkStatus();
}

absl::Status ConcatenateDatasets(const std::vector<DatasetPart>& parts, const std::string& prefix) {
  RETURN_IF_ERROR(StageConcatenation(parts, prefix));
  const absl::Status status = CommitDataset(prefix);
  if (!status.ok()) RemoveStaged(prefix);
  return status;
}

}  // namespace stretto
