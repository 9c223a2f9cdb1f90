// SPDX-License-Identifier: Apache-2.0

// A job file: any text gives a job or an error with a place.
#include <cstddef>
#include <cstdint>
#include <string>

#include "coordinator/cli/yaml/spec_yaml.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  stretto::cli::ParseJobFile(std::string(reinterpret_cast<const char*>(data), size), "fuzz.yaml")
      .status()
      .IgnoreError();
  return 0;
}
