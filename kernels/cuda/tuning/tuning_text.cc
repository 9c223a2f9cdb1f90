// SPDX-License-Identifier: Apache-2.0

// Prints and parses the text form of Tunings (tunings.h). Words reads a line word by word; after
// the first word that does not match, everything fails, and the error names that word.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "kernels/cuda/tuning/tunings.h"

namespace stretto::cuda {
namespace {

constexpr absl::string_view kTitle = "stretto tuning 4";
constexpr absl::string_view kAttention = "attention";

std::string Line(const TuningKey& key, const Algorithm& algorithm) {
  const Product& p = key.product;
  std::string line = absl::StrCat(p.transpose_a ? "t" : "n", p.transpose_b ? "t" : "n", " m ", p.m,
                                  " n ", p.n, " k ", p.k, " lda ", p.lda, " ldb ", p.ldb, " ldd ",
                                  p.ldd, " ", NameOf(p.in), " ", NameOf(p.out));
  absl::StrAppend(&line, " bias ", p.bias ? 1 : 0, " beta ", p.accumulate ? 1 : 0, " align ",
                  p.alignment, " sms ", key.sms, " us ", algorithm.microseconds, " limited ",
                  algorithm.limited ? 1 : 0, " workspace ", algorithm.workspace_bytes,
                  " algorithm");
  for (const uint64_t word : algorithm.words)
    absl::StrAppend(&line, " ", absl::Hex(word, absl::kZeroPad16));
  return line;
}

std::string Line(const AttentionKey& key, const AttentionTimes& times) {
  return absl::StrCat(kAttention, " length ", key.length, " heads ", key.heads, " kv_heads ",
                      key.kv_heads, " head_dim ", key.head_dim, " backward ", key.backward ? 1 : 0,
                      " repeatable ", key.repeatable ? 1 : 0, " library ", key.library_version,
                      " own_us ", times.own, " library_us ", times.library, " together ",
                      times.together);
}

// Reads a line word by word; after the first word that does not match, every read fails.
class Words {
 public:
  explicit Words(absl::string_view line) : words_(absl::StrSplit(line, ' ')) {}

  absl::string_view Next() { return at_ < words_.size() ? words_[at_++] : absl::string_view(); }
  void Literal(absl::string_view expected) { Expect(Next() == expected); }
  int64_t Number(absl::string_view name, int64_t least, int64_t most) {
    Literal(name);
    int64_t value = -1;
    Expect(absl::SimpleAtoi(Next(), &value) && value >= least && value <= most);
    return value;
  }
  bool OneOf(absl::string_view no, absl::string_view yes, absl::string_view word) {
    Expect(word == no || word == yes);
    return word == yes;
  }
  DType Type() { return OneOf("f32", "bf16", Next()) ? DType::kBF16 : DType::kF32; }
  double Time(absl::string_view name, bool may_be_zero = false) {
    Literal(name);
    double value = 0;
    Expect(absl::SimpleAtod(Next(), &value) && (value > 0 || (may_be_zero && value == 0)) &&
           value < 1e9);
    return value;
  }
  uint64_t Hex() {
    const absl::string_view word = Next();
    uint64_t value = 0;
    Expect(word.size() == 16 && absl::SimpleHexAtoi(word, &value));
    return value;
  }
  void Expect(bool fits) {
    if (!fits && wrong_ == 0) wrong_ = at_;
  }
  // Returns the number, from 1, of the first word that does not match; 0 if all match and none is
  // left.
  size_t wrong() {
    if (wrong_ == 0 && at_ < words_.size()) wrong_ = at_ + 1;
    return wrong_;
  }

 private:
  const std::vector<absl::string_view> words_;
  size_t at_ = 0;
  size_t wrong_ = 0;
};

constexpr int64_t kMost = int64_t{1} << 40;

size_t ParseLine(absl::string_view line, TuningKey* key, Algorithm* algorithm) {
  Words words(line);
  Product& p = key->product;
  const absl::string_view form = words.Next();
  words.Expect(form.size() == 2);
  p.transpose_a = words.OneOf("n", "t", form.substr(0, 1));
  p.transpose_b = words.OneOf("n", "t", form.substr(form.size() < 2 ? 0 : 1, 1));
  p.m = words.Number("m", 1, kMost);
  p.n = words.Number("n", 0, kMost);
  p.k = words.Number("k", 1, kMost);
  p.lda = words.Number("lda", 1, kMost);
  p.ldb = words.Number("ldb", 1, kMost);
  p.ldd = words.Number("ldd", 1, kMost);
  p.in = words.Type();
  p.out = words.Type();
  p.bias = words.Number("bias", 0, 1) == 1;
  p.accumulate = words.Number("beta", 0, 1) == 1;
  p.alignment = static_cast<int>(words.Number("align", 1, 16));
  key->sms = static_cast<int>(words.Number("sms", 0, 1 << 16));
  algorithm->microseconds = words.Time("us", true);
  algorithm->limited = words.Number("limited", 0, 1) == 1;
  algorithm->workspace_bytes = words.Number("workspace", 0, kMost);
  words.Literal("algorithm");
  for (uint64_t& word : algorithm->words) word = words.Hex();
  return words.wrong();
}

size_t ParseLine(absl::string_view line, AttentionKey* key, AttentionTimes* times) {
  Words words(line);
  words.Literal(kAttention);
  key->length = words.Number("length", 1, kMost);
  key->heads = words.Number("heads", 1, kMost);
  key->kv_heads = words.Number("kv_heads", 1, kMost);
  key->head_dim = words.Number("head_dim", 1, kMost);
  key->backward = words.Number("backward", 0, 1) == 1;
  key->repeatable = words.Number("repeatable", 0, 1) == 1;
  key->library_version = words.Number("library", 0, kMost);
  times->own = words.Time("own_us");
  times->library = words.Time("library_us");
  times->together = words.Number("together", 1, 1 << 16);
  return words.wrong();
}

absl::Status Bad(size_t line, absl::string_view found, absl::string_view expected) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, ": found '", found.substr(0, 60), "', expected ", expected));
}

}  // namespace

std::string Tunings::Print() const {
  std::string text =
      absl::StrCat(kTitle, "\ndevice ", device_, "\nlibrary ", library_version_, "\n");
  int lines = 0;
  for (const auto& [key, algorithm] : algorithms_) {
    if (!algorithm.stored) continue;
    absl::StrAppend(&text, Line(key, algorithm), "\n");
    ++lines;
  }
  for (const auto& [key, times] : attention_) {
    absl::StrAppend(&text, Line(key, times), "\n");
    ++lines;
  }
  return absl::StrCat(text, "end ", lines, "\n");
}

absl::Status Tunings::Parse(absl::string_view text) {
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  const auto line = [&](size_t i) { return i < lines.size() ? lines[i] : absl::string_view(); };
  if (line(0) != kTitle) return Bad(1, line(0), absl::StrCat("'", kTitle, "'"));
  const std::string made_for[] = {absl::StrCat("device ", device_),
                                  absl::StrCat("library ", library_version_)};
  for (size_t i = 0; i < 2; ++i) {
    if (line(i + 1) == made_for[i]) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "line ", i + 2, ": found '", line(i + 1).substr(0, 60), "', expected '", made_for[i], "'"));
  }
  std::map<TuningKey, Algorithm> algorithms;
  std::map<AttentionKey, AttentionTimes> attention;
  const auto read = [&](absl::string_view entry, auto* entries) {
    typename std::remove_pointer_t<decltype(entries)>::key_type key;
    typename std::remove_pointer_t<decltype(entries)>::mapped_type value;
    const size_t wrong = ParseLine(entry, &key, &value);
    if (wrong == 0) entries->emplace(key, value);
    return wrong;
  };
  size_t i = 3;
  for (; i < lines.size() && !absl::StartsWith(lines[i], "end "); ++i) {
    const size_t wrong = absl::StartsWith(lines[i], kAttention) ? read(lines[i], &attention)
                                                                : read(lines[i], &algorithms);
    if (wrong > 0)
      return Bad(i + 1, lines[i], absl::StrCat("an entry; word ", wrong, " does not fit"));
  }
  const std::string end = absl::StrCat("end ", i - 3);
  if (line(i) != end) return Bad(i + 1, line(i), absl::StrCat("'", end, "'"));
  algorithms_.merge(algorithms);
  attention_.merge(attention);
  return absl::OkStatus();
}

}  // namespace stretto::cuda
