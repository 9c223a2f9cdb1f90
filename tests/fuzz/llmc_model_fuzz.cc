// SPDX-License-Identifier: Apache-2.0

// A model of llm.c: any bytes open or are refused, and what opens can be read.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/engine/model/parameters.h"
#include "worker/exchange/llmc_source.h"
#include "worker/exchange/model_limits.h"

// 32 bytes are the fields of the header that matter, the rest are the bytes behind the header.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const stretto::fuzz::Folder& folder = stretto::fuzz::Folder::Get();
  const auto whole =
      stretto::OpenLlmc("fuzz", folder.Write("whole", stretto::fuzz::TextOf(data, size)));
  if (whole.ok() && size < sizeof(stretto::LlmcHeader)) abort();
  constexpr size_t kFields = 32;
  if (size < kFields + sizeof(int64_t)) return 0;
  stretto::LlmcHeader header{};
  std::memcpy(header.data(), data, kFields);
  int64_t any_size = 0;
  std::memcpy(&any_size, data + kFields, sizeof any_size);
  const auto parsed = stretto::ParseLlmcHeader(header, any_size, "fuzz");
  if (parsed.ok() && !stretto::CheckModel(*parsed, "fuzz").ok()) abort();

  const absl::string_view head(reinterpret_cast<const char*>(header.data()), sizeof header);
  const std::string path =
      folder.Write("model", absl::StrCat(head, stretto::fuzz::TextOf(data, size).substr(kFields)));
  const auto model = stretto::OpenLlmc("fuzz", path);
  if (!model.ok()) return 0;
  for (const stretto::Parameter& p : stretto::ParametersOf((*model)->model(), 1, 0)) {
    std::vector<float> values(static_cast<size_t>(p.count()));
    if (!(*model)->Read(p.name, p.starts, p.extents, values.data()).ok()) abort();
  }
  return 0;
}
