// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokens on disk in the format of Megatron-LM's MMapIndexedDataset. PREFIX.bin has the raw tokens;
// PREFIX.idx has the lengths and byte offsets of sequences, and the sequences at which documents
// begin. All fields are little-endian and, from byte 34 on, unaligned:
//    0 magic "MMIDIDX\0\0"         9 u64 version, 1          17 u8 type code
//   18 u64 number of sequences S  26 u64 number of document boundaries D
//   34 i32 lengths[S], then i64 pointers[S] (bytes into .bin), then i64 boundaries[D] (0 ... S)

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/base/files.h"
#include "worker/data/token_file.h"
#include "worker/data/token_stream.h"

namespace stretto {

// One data set, read as the stream of all its tokens in sequence order.
class IndexedDataset final : public TokenStream {
 public:
  // Maps PREFIX.idx and PREFIX.bin and checks every bound, so that reads need not. Errors: NotFound
  // (no such file), InvalidArgument (malformed or empty; names file, byte offset, found and
  // expected).
  static absl::StatusOr<IndexedDataset> Open(const std::string& prefix);

  const std::string& name() const override { return prefix_; }
  TokenType type() const override { return bin_.type; }
  int64_t token_count() const override { return token_count_; }
  int64_t FindDocument(int64_t begin, int64_t end) const override;
  absl::Status Read(int64_t begin, int32_t vocab_size, std::span<int32_t> out) const override;

  int64_t sequence_count() const { return sequence_count_; }
  int64_t document_count() const { return document_count_; }
  // The number of tokens of a sequence in [0, sequence_count).
  int64_t SequenceLength(int64_t sequence) const { return Length(sequence); }
  // The number of the first sequence of a document; sequence_count for one past the last document.
  int64_t FirstSequence(int64_t document) const;

 private:
  IndexedDataset(std::string prefix, MappedFile index, TokenFile bin)
      : prefix_(std::move(prefix)), index_(std::move(index)), bin_(std::move(bin)) {}

  absl::Status ParseHeader();
  absl::Status ParseSequences();
  absl::Status ParseDocuments();
  absl::Status Malformed(int64_t offset, const std::string& field, const std::string& found,
                         const std::string& expected) const;
  int64_t Length(int64_t sequence) const;
  int64_t Pointer(int64_t sequence) const;
  int64_t FirstToken(int64_t document) const;  // its position in the stream

  std::string prefix_;
  MappedFile index_;
  TokenFile bin_;
  int64_t sequence_count_ = 0;
  int64_t document_count_ = 0;
  int64_t token_count_ = 0;
  // Stream position of each sequence's first token. Empty if the sequences are contiguous in .bin
  // from byte 0, as Megatron and we write them: then stream and file order are equal.
  std::vector<int64_t> starts_;
};

// Renames PREFIX.bin.tmp and PREFIX.idx.tmp, which must be durable, into place. After a crash there
// is the old data set, the new one, or none with an index. Removes the old one's tokenizer (note
// and files) and mask.
absl::Status CommitDataset(const std::string& prefix);

// Returns AlreadyExists if PREFIX.idx, PREFIX.bin or PREFIX.tokenizer exists.
absl::Status CheckNoDataset(const std::string& prefix);

// Writes a data set. Nothing can be opened at PREFIX until Finish has succeeded. A writer that
// fails or is destroyed earlier removes its files. Not thread-safe.
class IndexedDatasetWriter {
 public:
  // Errors: those of CheckNoDataset unless `overwrite`, those of ErrnoStatus.
  static absl::StatusOr<IndexedDatasetWriter> Create(const std::string& prefix, TokenType type,
                                                     bool overwrite);
  IndexedDatasetWriter(IndexedDatasetWriter&&) = default;
  IndexedDatasetWriter& operator=(IndexedDatasetWriter&&) = delete;
  ~IndexedDatasetWriter();

  // Errors: InvalidArgument (a token does not fit the type), ResourceExhausted (disk full).
  absl::Status AddSequence(std::span<const int32_t> tokens);
  // Makes one document of the sequences since the last call.
  void EndDocument();
  // Adds one sequence that is a document.
  absl::Status AddDocument(std::span<const int32_t> tokens);

  // Makes .bin durable, renames it into place, then writes .idx atomically. Call once.
  absl::Status Finish();

  int64_t token_count() const { return token_count_; }
  int64_t document_count() const { return static_cast<int64_t>(documents_.size()) - 1; }

 private:
  IndexedDatasetWriter(std::string prefix, TokenType type, FileDescriptor bin);
  absl::Status Flush();
  std::string Index() const;
  std::string TemporaryBin() const { return prefix_ + ".bin.tmp"; }

  std::string prefix_;
  TokenType type_;
  FileDescriptor bin_;  // invalid once finished or failed
  std::string buffer_;
  std::vector<int32_t> lengths_;
  std::vector<int64_t> documents_ = {0};
  int64_t token_count_ = 0;
};

}  // namespace stretto
