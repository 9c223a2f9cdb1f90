// SPDX-License-Identifier: Apache-2.0

// A data set's index: any bytes beside a small .bin open or are refused, and what opens can be
// read.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/fuzz_input.h"
#include "worker/data/indexed_dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const stretto::fuzz::Folder& folder = stretto::fuzz::Folder::Get();
  folder.Write("set.bin", std::string(64, '\1'));
  folder.Write("set.idx", stretto::fuzz::TextOf(data, size));
  const auto dataset = stretto::IndexedDataset::Open(folder.Path("set"));
  if (!dataset.ok()) return 0;
  std::array<int32_t, 8> tokens;
  dataset->Read(0, 1 << 20, tokens).IgnoreError();
  return 0;
}
