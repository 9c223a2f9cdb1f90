// SPDX-License-Identifier: Apache-2.0

// Files and output that the client reads besides job files: its config file, and the commands that
// the other programs print. What was read is printed and read the same.
#include <cstddef>
#include <cstdint>
#include <string>

#include "coordinator/cli/client/config.h"
#include "proto/base/check.h"
#include "proto/commands/program.h"
#include "tests/fuzz/fuzz_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(stretto::fuzz::TextOf(data, size));
  const auto config = stretto::cli::ParseConfig(text, "config.yaml");
  if (config.ok()) {
    for (const std::string& name : stretto::cli::ContextNames(*config)) {
      STRETTO_CHECK(stretto::cli::FindContext(*config, name, "config.yaml").ok());
    }
  }
  stretto::ParseCommands(text).status().IgnoreError();
  return 0;
}
