// SPDX-License-Identifier: Apache-2.0
#include "worker/data/mask.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/data/indexed_dataset.h"

namespace stretto {

std::string MaskPrefix(const std::string& prefix) { return prefix + ".mask"; }

absl::StatusOr<std::unique_ptr<TokenStream>> OpenMask(const std::string& prefix,
                                                      const TokenStream& tokens) {
  absl::StatusOr<IndexedDataset> opened = IndexedDataset::Open(MaskPrefix(prefix));
  if (absl::IsNotFound(opened.status())) {
    return absl::NotFoundError(absl::StrCat(opened.status().message(), "; ", prefix,
                                            ".tokenizer.json says that the data set has a mask"));
  }
  ASSIGN_OR_RETURN(IndexedDataset mask, std::move(opened));
  if (mask.token_count() != tokens.token_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat(MaskPrefix(prefix), ": found ", mask.token_count(), " values, expected ",
                     tokens.token_count(), ", one for each token of ", tokens.name()));
  }
  return std::make_unique<IndexedDataset>(std::move(mask));
}

absl::StatusOr<int64_t> CountTrained(const TokenStream& mask, int64_t begin, int64_t end) {
  constexpr int64_t kAtOnce = int64_t{1} << 16;
  std::vector<int32_t> values(static_cast<size_t>(std::min(kAtOnce, end - begin)));
  int64_t count = 0;
  for (int64_t at = begin; at < end; at += kAtOnce) {
    const auto size = static_cast<size_t>(std::min(kAtOnce, end - at));
    RETURN_IF_ERROR(mask.Read(at, kMaskValues, std::span(values).first(size)));
    count += std::count(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(size), 1);
  }
  return count;
}

}  // namespace stretto
