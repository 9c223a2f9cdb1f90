// SPDX-License-Identifier: Apache-2.0

// Runs a fuzz target on the files of the given folders, in the order of their paths: the corpus as
// a test of every compiler. A target that aborts is a failure, after the name of the file.
// Arguments that begin with "--" are the target's own, as with libFuzzer.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "proto/base/files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
// Of some targets only.
extern "C" __attribute__((weak)) int LLVMFuzzerInitialize(int* argc, char*** argv);

int main(int argc, char** argv) {
  if (LLVMFuzzerInitialize != nullptr) LLVMFuzzerInitialize(&argc, &argv);
  std::vector<std::string> files;
  for (int i = 1; i < argc; ++i) {
    if (absl::StartsWith(argv[i], "--")) continue;
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      if (entry.is_regular_file()) files.push_back(entry.path().string());
    }
  }
  std::sort(files.begin(), files.end());
  for (const std::string& file : files) {
    const auto bytes = stretto::ReadFile(file);
    if (!bytes.ok()) {
      std::fprintf(stderr, "%s\n", bytes.status().ToString().c_str());
      return 1;
    }
    std::printf("%s\n", file.c_str());
    std::fflush(stdout);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes->data()), bytes->size());
  }
  // What nobody replays proves nothing.
  if (files.empty()) std::fprintf(stderr, "found no input, expected at least one\n");
  return files.empty() ? 1 : 0;
}
