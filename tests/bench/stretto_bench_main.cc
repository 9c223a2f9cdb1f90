// stretto-bench: benchmarks and models of schedules, one subcommand each.

#include <iostream>
#include <string>
#include <vector>

#include "tests/bench/devices_command.h"
#include "tests/bench/overlap/command.h"
#include "tests/bench/sim_command.h"

namespace stretto {
namespace {

// A row for each subcommand; `run` gets the arguments after its name.
struct Command {
  const char* name;
  const char* summary;
  int (*run)(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);
};

constexpr Command kCommands[] = {
    {"devices", "the GPUs that can be used, or why there are none", DevicesCommand},
    {"sim", "simulate a schedule of a model: timeline, ledger, step time", SimCommand},
    {"overlap", "measure the schedules on this machine against each other", OverlapCommand},
};

void PrintUsage(std::ostream& out) {
  out << "usage: stretto-bench COMMAND [FLAGS]\n\n";
  for (const Command& command : kCommands) {
    out << "  " << command.name << "\t" << command.summary << "\n";
  }
  out << "\n`stretto-bench COMMAND --help` says more.\n";
}

int Run(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    PrintUsage(std::cout);
    return 0;
  }
  for (const Command& command : kCommands) {
    if (!arguments.empty() && arguments[0] == command.name) {
      return command.run({arguments.begin() + 1, arguments.end()}, std::cout, std::cerr);
    }
  }
  if (arguments.empty()) {
    PrintUsage(std::cerr);
    return 2;
  }
  std::cerr << "error: found command '" << arguments[0] << "', expected";
  for (const Command& command : kCommands) {
    std::cerr << (&command == kCommands ? " " : ", ") << command.name;
  }
  std::cerr << "\n";
  return 2;
}

}  // namespace
}  // namespace stretto

int main(int argc, char** argv) {
  return stretto::Run(std::vector<std::string>(argv + 1, argv + argc));
}
