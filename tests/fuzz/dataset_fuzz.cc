// SPDX-License-Identifier: Apache-2.0

// A data set's index: any bytes beside a small .bin open or are refused, and what opens can be
// read.
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <string>

#include "worker/data/indexed_dataset.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string prefix = "/tmp/stretto_dataset_fuzz_" + std::to_string(getpid());
  std::ofstream(prefix + ".bin", std::ios::binary) << std::string(64, '\1');
  std::ofstream(prefix + ".idx", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  const auto dataset = stretto::IndexedDataset::Open(prefix);
  if (!dataset.ok()) return 0;
  std::array<int32_t, 8> tokens;
  dataset->Read(0, 1 << 20, tokens).IgnoreError();
  return 0;
}
