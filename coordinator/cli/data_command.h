#pragma once
// `stretto data prepare`: text to a data set, on this machine; needs no coordinator.

#include <string>
#include <vector>

#include "coordinator/cli/exit_codes.h"
#include "coordinator/cli/terminal.h"

namespace stretto::cli {

struct DataPrepareOptions {
  std::vector<std::string> inputs;
  std::string prefix;
  std::string tokenizer = "bytes";  // or "sentencepiece:MODEL"
  bool overwrite = false;
};
ExitCode PrepareData(const DataPrepareOptions& options, Terminal& terminal);

}  // namespace stretto::cli
