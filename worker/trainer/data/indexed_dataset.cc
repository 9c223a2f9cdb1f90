#include "worker/trainer/data/indexed_dataset.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/trainer/data/index_layout.h"

namespace stretto {
namespace {

template <class T>
T Load(const char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

// Copies and widens; returns the index of the first token outside [0, vocab_size), or the count.
template <class T>
size_t Widen(const char* from, int32_t vocab_size, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto token = static_cast<int64_t>(Load<T>(from + i * sizeof(T)));
    if (token < 0 || token >= vocab_size) return i;
    out[i] = static_cast<int32_t>(token);
  }
  return out.size();
}

size_t WidenAs(TokenType type, const char* from, int32_t vocab_size, std::span<int32_t> out) {
  switch (type) {
    case TokenType::kU8:
      return Widen<uint8_t>(from, vocab_size, out);
    case TokenType::kI8:
      return Widen<int8_t>(from, vocab_size, out);
    case TokenType::kI16:
      return Widen<int16_t>(from, vocab_size, out);
    case TokenType::kI32:
      return Widen<int32_t>(from, vocab_size, out);
    case TokenType::kI64:
      return Widen<int64_t>(from, vocab_size, out);
    case TokenType::kU16:
      return Widen<uint16_t>(from, vocab_size, out);
  }
  STRETTO_CHECK(false);
}

int64_t TokenAt(TokenType type, const char* from) {
  switch (type) {
    case TokenType::kU8:
      return Load<uint8_t>(from);
    case TokenType::kI8:
      return Load<int8_t>(from);
    case TokenType::kI16:
      return Load<int16_t>(from);
    case TokenType::kI32:
      return Load<int32_t>(from);
    case TokenType::kI64:
      return Load<int64_t>(from);
    case TokenType::kU16:
      return Load<uint16_t>(from);
  }
  STRETTO_CHECK(false);
}

}  // namespace

size_t SizeOf(TokenType type) {
  switch (type) {
    case TokenType::kU8:
    case TokenType::kI8:
      return 1;
    case TokenType::kI16:
    case TokenType::kU16:
      return 2;
    case TokenType::kI32:
      return 4;
    case TokenType::kI64:
      return 8;
  }
  STRETTO_CHECK(false);
}

const char* NameOf(TokenType type) {
  switch (type) {
    case TokenType::kU8:
      return "u8";
    case TokenType::kI8:
      return "i8";
    case TokenType::kI16:
      return "i16";
    case TokenType::kI32:
      return "i32";
    case TokenType::kI64:
      return "i64";
    case TokenType::kU16:
      return "u16";
  }
  STRETTO_CHECK(false);
}

TokenType TokenTypeFor(int32_t vocab_size) {
  return vocab_size < 65500 ? TokenType::kU16 : TokenType::kI32;
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, absl::StrCat("open ", path));
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return ErrnoStatus(errno, absl::StrCat("stat ", path));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path,
                                                   ": found something else than a regular "
                                                   "file, expected a regular file"));
  }
  if (info.st_size == 0) return MappedFile(nullptr, 0);
  void* data =
      ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, absl::StrCat("mmap ", path));
  return MappedFile(static_cast<const char*>(data), info.st_size);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), static_cast<size_t>(size_));
}

absl::StatusOr<IndexedDataset> IndexedDataset::Open(const std::string& prefix) {
  ASSIGN_OR_RETURN(MappedFile index, MappedFile::Open(prefix + ".idx"));
  ASSIGN_OR_RETURN(MappedFile bin, MappedFile::Open(prefix + ".bin"));
  IndexedDataset dataset(prefix, std::move(index), std::move(bin));
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
  type_ = static_cast<TokenType>(code);

  // Bounds by division, so that no count can overflow.
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
  const auto item = static_cast<int64_t>(SizeOf(type_));
  bool contiguous = true;
  for (int64_t i = 0; i < sequence_count_; ++i) {
    const int64_t length = Length(i), pointer = Pointer(i);
    if (length < 0) {
      return Malformed(LengthOffset(i), absl::StrCat("length of sequence ", i),
                       absl::StrCat(length), "0 or more");
    }
    // A length is below 2^31 and an item at most 8 bytes, so the product cannot overflow.
    if (pointer < 0 || length * item > bin_.size() || pointer > bin_.size() - length * item) {
      return Malformed(
          PointerOffset(sequence_count_, i), absl::StrCat("pointer of sequence ", i),
          absl::StrCat(pointer, " with ", length, " tokens of ", item, " bytes"),
          absl::StrCat("an end within the ", bin_.size(), " bytes of ", prefix_, ".bin"));
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
  starts_.reserve(static_cast<size_t>(sequence_count_));
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

absl::Status IndexedDataset::Convert(int64_t byte, int32_t vocab_size,
                                     std::span<int32_t> out) const {
  const char* from = bin_.data() + byte;
  const size_t done = WidenAs(type_, from, vocab_size, out);
  if (done == out.size()) return absl::OkStatus();
  const int64_t offset = byte + static_cast<int64_t>(done * SizeOf(type_));
  return absl::InvalidArgumentError(
      absl::StrCat(prefix_, ".bin: token ", offset / static_cast<int64_t>(SizeOf(type_)),
                   " at byte ", offset, ": found ", TokenAt(type_, bin_.data() + offset),
                   ", expected a token in [0, ", vocab_size, ")"));
}

absl::Status IndexedDataset::Read(int64_t begin, int32_t vocab_size, std::span<int32_t> out) const {
  const auto count = static_cast<int64_t>(out.size());
  if (begin < 0 || count > token_count_ || begin > token_count_ - count) {
    return absl::OutOfRangeError(absl::StrCat(prefix_, ": found a read of ", count,
                                              " tokens at token ", begin,
                                              ", expected an end within ", token_count_));
  }
  const auto item = static_cast<int64_t>(SizeOf(type_));
  if (starts_.empty()) return Convert(begin * item, vocab_size, out);
  auto next = std::upper_bound(starts_.begin(), starts_.end(), begin);
  for (int64_t sequence = next - starts_.begin() - 1; !out.empty(); ++sequence) {
    const int64_t skip = begin - starts_[static_cast<size_t>(sequence)];
    const auto take = std::min<size_t>(out.size(), static_cast<size_t>(Length(sequence) - skip));
    RETURN_IF_ERROR(Convert(Pointer(sequence) + skip * item, vocab_size, out.first(take)));
    out = out.subspan(take);
    begin += static_cast<int64_t>(take);
  }
  return absl::OkStatus();
}

absl::Status IndexedDataset::CheckTokens(int32_t vocab_size, int64_t limit) const {
  std::vector<int32_t> block(size_t{1} << 16);
  const int64_t end = std::min(limit, token_count_);
  for (int64_t begin = 0; begin < end; begin += static_cast<int64_t>(block.size())) {
    const auto count = std::min<size_t>(block.size(), static_cast<size_t>(end - begin));
    RETURN_IF_ERROR(Read(begin, vocab_size, std::span<int32_t>(block).first(count)));
  }
  return absl::OkStatus();
}

}  // namespace stretto
