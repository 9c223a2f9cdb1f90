// SPDX-License-Identifier: Apache-2.0

// A file of tensors, as models and checkpoints are: any bytes open or are refused, and every tensor
// of a file that opens can be read.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "proto/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = stretto::SafetensorsReader::Open(
      stretto::fuzz::Folder::Get().Write("tensors", stretto::fuzz::TextOf(data, size)));
  if (!file.ok()) return 0;
  for (const stretto::StoredTensor& tensor : file->header().tensors) {
    STRETTO_CHECK(file->Find(tensor.name) == &tensor && tensor.bytes <= static_cast<int64_t>(size));
    std::vector<char> bytes(static_cast<size_t>(tensor.bytes));
    STRETTO_CHECK(file->Read(tensor, 0, tensor.bytes, bytes.data()).ok());
  }
  return 0;
}
