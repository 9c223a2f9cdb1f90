// SPDX-License-Identifier: Apache-2.0

// Maps the index and the tokens, and checks the index completely when it is opened: counts fit the
// file size, every sequence is within .bin, boundaries ascend from 0 to the sequence count. Later
// reads rely on that. If the sequences are not contiguous in .bin, a table of their stream
// positions is built; otherwise a read is one read of .bin. FindDocument is a binary search over
// the boundaries.

#include "worker/data/indexed_dataset.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/data/index_layout.h"

namespace stretto {
absl::StatusOr<IndexedDataset> IndexedDataset::Open(const std::string& prefix) {
  ASSIGN_OR_RETURN(MappedFile index, MappedFile::Open(prefix + ".idx"));
  ASSIGN_OR_RETURN(MappedFile bin, MappedFile::Open(prefix + ".bin"));
  IndexedDataset dataset(prefix, std::move(index),
                         {.path = prefix + ".bin", .bytes = std::move(bin)});
  RETURN_IF_ERROR(dataset.ParseHeader());
  RETURN_IF_ERROR(dataset.ParseSequences());
  RETURN_IF_ERROR(dataset.ParseDocuments());
  return dataset;
}

absl::Status IndexedDataset::Malformed(int64_t offset, const std::string& field,
                                       const std::string& found,
                                       const std::string& expected) const {
  return absl::InvalidArgumentError(absl::StrCat(prefix_, ".idx: ", field, " at byte ", offset,
                                                 ": found ", found, ", expected ", expected));
}

absl::Status IndexedDataset::ParseHeader() {
  if (index_.size() < kIndexHeaderBytes) {
    return Malformed(0, "header", absl::StrCat("a file of ", index_.size(), " bytes"),
                     absl::StrCat("at least ", kIndexHeaderBytes));
  }
  if (std::memcmp(index_.data(), kIndexMagic, sizeof(kIndexMagic)) != 0) {
    return Malformed(0, "magic", "other bytes", "\"MMIDIDX\\0\\0\"");
  }
  const auto version = Load<uint64_t>(index_.data() + kVersionOffset);
  if (version != 1) return Malformed(kVersionOffset, "version", absl::StrCat(version), "1");
  const auto code = Load<uint8_t>(index_.data() + kTypeOffset);
  if (code < 1 || code > 8 || code == 6 || code == 7) {
    return Malformed(kTypeOffset, "token type code", absl::StrCat(code),
                     "an integer type: 1 to 5 or 8");
  }
  bin_.type = static_cast<TokenType>(code);

  // Compares by division, so that no count can overflow.
  const auto rest = static_cast<uint64_t>(index_.size() - kIndexHeaderBytes);
  const auto sequences = Load<uint64_t>(index_.data() + kSequencesOffset);
  if (sequences > rest / kSequenceBytes) {
    return Malformed(
        kSequencesOffset, "sequence count", absl::StrCat(sequences),
        absl::StrCat("at most ", rest / kSequenceBytes, " in a file of ", index_.size(), " bytes"));
  }
  const uint64_t left = rest - sequences * kSequenceBytes;
  const auto documents = Load<uint64_t>(index_.data() + kDocumentsOffset);
  if (left % 8 != 0 || documents != left / 8) {
    return Malformed(kDocumentsOffset, "document count",
                     absl::StrCat(documents, " (with ", sequences, " sequences in a file of ",
                                  index_.size(), " bytes)"),
                     left % 8 == 0 ? absl::StrCat(left / 8)
                                   : absl::StrCat("a file without ", left % 8, " extra bytes"));
  }
  if (documents == 0) return Malformed(kDocumentsOffset, "document count", "0", "at least 1");
  sequence_count_ = static_cast<int64_t>(sequences);
  document_count_ = static_cast<int64_t>(documents) - 1;
  return absl::OkStatus();
}

int64_t IndexedDataset::Length(int64_t sequence) const {
  return Load<int32_t>(index_.data() + LengthOffset(sequence));
}

int64_t IndexedDataset::Pointer(int64_t sequence) const {
  return Load<int64_t>(index_.data() + PointerOffset(sequence_count_, sequence));
}

absl::Status IndexedDataset::ParseSequences() {
  const auto item = static_cast<int64_t>(SizeOf(bin_.type));
  bool contiguous = true;
  for (int64_t i = 0; i < sequence_count_; ++i) {
    const int64_t length = Length(i), pointer = Pointer(i);
    if (length < 0) {
      return Malformed(LengthOffset(i), absl::StrCat("length of sequence ", i),
                       absl::StrCat(length), "0 or more");
    }
    // A length is below 2^31 and an item at most 8 bytes, so the product cannot overflow.
    if (pointer < 0 || length * item > bin_.bytes.size() ||
        pointer > bin_.bytes.size() - length * item) {
      return Malformed(
          PointerOffset(sequence_count_, i), absl::StrCat("pointer of sequence ", i),
          absl::StrCat(pointer, " with ", length, " tokens of ", item, " bytes"),
          absl::StrCat("an end within the ", bin_.bytes.size(), " bytes of ", bin_.path));
    }
    contiguous = contiguous && pointer == token_count_ * item;
    if (__builtin_add_overflow(token_count_, length, &token_count_)) {
      return Malformed(LengthOffset(i), "sum of lengths", "more than 2^63", "less");
    }
  }
  if (token_count_ == 0) {
    return absl::InvalidArgumentError(absl::StrCat(prefix_,
                                                   ".idx: data has zero length: found 0 "
                                                   "tokens in ",
                                                   sequence_count_,
                                                   " sequences, expected at least 1"));
  }
  if (contiguous) return absl::OkStatus();
  starts_.reserve(sequence_count_);
  int64_t start = 0;
  for (int64_t i = 0; i < sequence_count_; ++i) {
    starts_.push_back(start);
    start += Length(i);
  }
  return absl::OkStatus();
}

absl::Status IndexedDataset::ParseDocuments() {
  int64_t previous = 0;
  for (int64_t i = 0; i <= document_count_; ++i) {
    const int64_t offset = DocumentOffset(sequence_count_, i);
    const auto boundary = Load<int64_t>(index_.data() + offset);
    const std::string field = absl::StrCat("document boundary ", i);
    if (i == 0 && boundary != 0) return Malformed(offset, field, absl::StrCat(boundary), "0");
    if (boundary < previous) {
      return Malformed(offset, field, absl::StrCat(boundary),
                       absl::StrCat("no less than the one before, ", previous));
    }
    if (i == document_count_ && boundary != sequence_count_) {
      return Malformed(offset, field, absl::StrCat(boundary),
                       absl::StrCat("the sequence count, ", sequence_count_));
    }
    previous = boundary;
  }
  return absl::OkStatus();
}

int64_t IndexedDataset::FirstSequence(int64_t document) const {
  return Load<int64_t>(index_.data() + DocumentOffset(sequence_count_, document));
}

int64_t IndexedDataset::FirstToken(int64_t document) const {
  const int64_t sequence = FirstSequence(document);
  if (sequence == sequence_count_) return token_count_;
  if (!starts_.empty()) return starts_[sequence];
  return Pointer(sequence) / static_cast<int64_t>(SizeOf(bin_.type));
}

int64_t IndexedDataset::FindDocument(int64_t begin, int64_t end) const {
  int64_t low = 0, high = document_count_;  // of the first document that begins at or after `begin`
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (FirstToken(middle) < begin) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low == document_count_ ? end : std::min(FirstToken(low), end);
}

absl::Status IndexedDataset::Read(int64_t begin, int32_t vocab_size, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  if (begin < 0 || count > token_count_ || begin > token_count_ - count) {
    return absl::OutOfRangeError(absl::StrCat(prefix_, ": found a read of ", count,
                                              " tokens at token ", begin,
                                              ", expected an end within ", token_count_));
  }
  const auto item = static_cast<int64_t>(SizeOf(bin_.type));
  if (starts_.empty()) return bin_.Read(begin * item, vocab_size, out);
  auto next = std::upper_bound(starts_.begin(), starts_.end(), begin);
  for (int64_t sequence = next - starts_.begin() - 1; !out.empty(); ++sequence) {
    const int64_t skip = begin - starts_[sequence];
    const auto take = std::min<size_t>(out.size(), Length(sequence) - skip);
    RETURN_IF_ERROR(bin_.Read(Pointer(sequence) + skip * item, vocab_size, out.first(take)));
    out = out.subspan(take);
    begin += static_cast<int64_t>(take);
  }
  return absl::OkStatus();
}

}  // namespace stretto
