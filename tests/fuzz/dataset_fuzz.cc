// SPDX-License-Identifier: Apache-2.0

// A data set's index: any bytes beside a small .bin open or are refused, and what opens can be
// read.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "proto/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/data/indexed_dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const stretto::fuzz::Folder& folder = stretto::fuzz::Folder::Get();
  folder.Write("set.bin", std::string(64, '\1'));
  folder.Write("set.idx", stretto::fuzz::TextOf(data, size));
  const auto dataset = stretto::IndexedDataset::Open(folder.Path("set"));
  if (!dataset.ok()) return 0;
  const int64_t count = dataset->token_count();
  std::array<int32_t, 8> tokens;
  for (const int64_t begin : {int64_t{0}, int64_t{1}, count / 2, count - 8, count}) {
    dataset->Read(begin, 1 << 20, tokens).IgnoreError();
    STRETTO_CHECK(dataset->FindDocument(begin, count) <= count);
  }
  return 0;
}
