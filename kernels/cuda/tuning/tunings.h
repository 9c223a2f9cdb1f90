// SPDX-License-Identifier: Apache-2.0
#pragma once
// The library algorithm of each product, the kernels of each shape of attention, and the text that
// keeps measured choices between runs. Algorithms are opaque words that only the same version of
// the library understands, so a file belongs to one kind of GPU and one version of the products'
// library; times of attention name the version of their own library.
//
//   stretto tuning 4
//   device NVIDIA H200
//   library 130100
//   tn m 4096 n 8192 k 1024 lda 1024 ldb 1024 ldd 4096 bf16 bf16 bias 1 beta 0 align 16 sms 0
//   us 93.4 limited 1 workspace 0 algorithm 8 words
//   attention length 2048 heads 32 kv_heads 8 head_dim 128 backward 0 repeatable 0 library 91900
//   own_us 310.5 library_us 240.5 together 4
//   end 2
//
// (An entry is one line.)
//
// Pure. Not thread-safe.

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/tuning/product.h"

namespace stretto::cuda {

struct TuningKey {
  Product product;
  // The SMs planned for; 0: all. Of a pinned choice, those that the company that it was timed
  // beside leaves; 0: timed alone.
  int sms = 0;

  auto operator<=>(const TuningKey&) const = default;
};

// What a pinned choice is made for, in place of what must not change bits.
struct PinnedTo {
  int64_t tokens = 0;  // the columns of the result where they are tokens
  int sms_left = 0;    // TuningKey::sms
};
TuningKey Pinned(TuningKey key, const PinnedTo& to);

struct Algorithm {
  std::array<uint64_t, 8> words = {};
  int64_t workspace_bytes = 0;
  double microseconds = 0;  // alone; 0: the library's first proposal, never measured
  // Whether it runs under SM limits. Some lose less when they have all SMs and share them.
  bool limited = true;
  bool stored = true;  // kept in files, so that later runs have its bits

  bool operator==(const Algorithm&) const = default;
};

// Everything that the choice of attention's kernels may depend on. The number of sequences is not
// part of it, so slices of a batch use the kernels of the whole.
struct AttentionKey {
  int64_t length = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool backward = false;
  bool repeatable = false;  // of backward: whether its bits must be the same in every run
  int64_t library_version = 0;

  auto operator<=>(const AttentionKey&) const = default;
};

// Median times of the same work, in microseconds, and the most sequences of the library's launches.
struct AttentionTimes {
  double own = 0, library = 0;
  int64_t together = 1;

  bool operator==(const AttentionTimes&) const = default;
};

class Tunings {
 public:
  Tunings(std::string device, int64_t library_version)
      : device_(std::move(device)), library_version_(library_version) {}

  const Algorithm* Find(const TuningKey& key) const;
  void Put(const TuningKey& key, const Algorithm& algorithm) { algorithms_[key] = algorithm; }
  const AttentionTimes* Find(const AttentionKey& key) const;
  void Put(const AttentionKey& key, const AttentionTimes& times) { attention_[key] = times; }

  std::string Print() const;
  // Adds the entries of `text` that are not present yet. After an error nothing has changed.
  // Errors: InvalidArgument naming the line, FailedPrecondition (another GPU or version).
  absl::Status Parse(absl::string_view text);

  // Returns the name of the file in a folder that several kinds of GPU may share.
  std::string FileName() const;

 private:
  std::string device_;
  int64_t library_version_;
  std::map<TuningKey, Algorithm> algorithms_;
  std::map<AttentionKey, AttentionTimes> attention_;
};

// Returns the median, the upper one of two in the middle. `values` must not be empty.
double MedianOf(std::vector<double> values);

// Returns the index of the candidate with the smallest median time. Candidates are in the library's
// order, and an earlier one is preferred unless a later one is more than 1 % faster, so that noise
// does not decide. Candidates without times have failed; -1 when all have.
int FastestOf(const std::vector<std::vector<double>>& times);

}  // namespace stretto::cuda
