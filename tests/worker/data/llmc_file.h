// SPDX-License-Identifier: Apache-2.0
#pragma once
// A token file of llm.c, byte by byte as write_datafile of its dev/data/data_common.py has it.

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace stretto {

inline std::string LlmcFile(const std::vector<int64_t>& tokens, bool llama3 = false) {
  const int32_t header[3] = {llama3 ? 20240801 : 20240520, llama3 ? 7 : 1,
                             static_cast<int32_t>(tokens.size())};
  std::string file(1024, '\0');
  std::memcpy(file.data(), header, sizeof(header));
  for (const int64_t token : tokens) {
    file.append(reinterpret_cast<const char*>(&token), llama3 ? 4 : 2);  // little-endian
  }
  return file;
}

}  // namespace stretto
