// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/commands/metrics_export.h"

namespace stretto::cli {
namespace {

// `python3 -m stretto` would print that there is no module, and not where it is from.
constexpr char kMain[] =
    "import sys\n"
    "try:\n"
    "    from stretto.__main__ import main\n"
    "except ImportError as error:\n"
    "    sys.exit(f'error: python3: found {error}, expected the Python package stretto: '\n"
    "             'pip install stretto-*.whl, which docs/PYTHON.md builds')\n"
    "sys.exit(main(sys.argv[1:]))\n";

}  // namespace

std::vector<std::string> ExportCommand(const std::string& job, const MetricsExport& to,
                                       const std::vector<std::string>& connection) {
  std::vector<std::string> command = {"python3", "-c", kMain, "job", "metrics", job};
  command.push_back(to.wandb.empty() ? "--tensorboard=" + to.tensorboard : "--wandb=" + to.wandb);
  command.insert(command.end(), connection.begin(), connection.end());
  return command;
}

}  // namespace stretto::cli
