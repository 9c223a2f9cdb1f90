// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/tuning/tunings.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"

namespace stretto::cuda {

TuningKey Pinned(TuningKey key, const PinnedTo& to) {
  if (TokensAreColumns(key.product)) key.product.n = to.tokens;
  key.sms = to.sms_left;
  return key;
}

const Algorithm* Tunings::Find(const TuningKey& key) const {
  const auto at = algorithms_.find(key);
  return at == algorithms_.end() ? nullptr : &at->second;
}

const AttentionTimes* Tunings::Find(const AttentionKey& key) const {
  const auto at = attention_.find(key);
  return at == attention_.end() ? nullptr : &at->second;
}

std::string Tunings::FileName() const {
  std::string name = absl::StrCat("tuning-", device_, "-", library_version_, ".txt");
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; }, '_');
  return name;
}

}  // namespace stretto::cuda
