// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs the program of `stretto checkpoint` as a user does.

#include <sys/wait.h>

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"

namespace stretto {

inline constexpr char kProgram[] = STRETTO_BINARY_DIR "/stretto-model";

struct Ran {
  int code;
  std::string output;  // stdout and stderr
};

inline Ran RunShell(const std::string& line) {
  FILE* pipe = ::popen(("(" + line + ") 2>&1").c_str(), "r");
  Ran ran{-1, ""};
  char block[512];
  while (const size_t n = std::fread(block, 1, sizeof(block), pipe)) ran.output.append(block, n);
  ran.code = WEXITSTATUS(::pclose(pipe));
  return ran;
}

inline Ran RunCheckpoint(const std::string& arguments) {
  return RunShell(absl::StrCat(kProgram, " checkpoint ", arguments));
}

}  // namespace stretto
