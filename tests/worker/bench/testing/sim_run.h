// SPDX-License-Identifier: Apache-2.0
#pragma once
// `stretto-bench sim` as it is called.

#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "worker/bench/sim_command.h"

namespace stretto {

struct SimRun {
  int code = 0;
  std::string out, err;
};

inline SimRun Sim(const std::string& arguments, int width = kPlainWidth) {
  std::ostringstream out, err;
  const std::vector<std::string> words = absl::StrSplit(arguments, ' ', absl::SkipEmpty());
  const int code = SimCommand(words, out, err, width);
  return {code, out.str(), err.str()};
}

}  // namespace stretto
