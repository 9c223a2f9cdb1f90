// SPDX-License-Identifier: Apache-2.0

// stretto-bench: benchmarks and models of schedules, one subcommand each.

#include <iostream>
#include <string>
#include <vector>

#include "proto/base/version.h"
#include "proto/commands/terminal_width.h"
#include "worker/bench/calibrate/command.h"
#include "worker/bench/devices_command.h"
#include "worker/bench/kernels/command.h"
#include "worker/bench/overlap/command.h"
#include "worker/bench/pipeline/command.h"
#include "worker/bench/replicas/command.h"
#include "worker/bench/reshard/command.h"
#include "worker/bench/sim_command.h"
#include "worker/bench/step/command.h"

namespace stretto {
namespace {

using Arguments = std::vector<std::string>;

// A subcommand; `run` gets the arguments after its name.
struct Command {
  const char* name;
  const char* summary;
  int (*run)(const Arguments& arguments, std::ostream& out, std::ostream& err);
};

int Simulate(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  return SimCommand(arguments, out, err, TerminalWidth());
}

// Runs on the machine that the arguments name.
int Kernels(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  return KernelsCommand(arguments, out, err, bench::OpenMachine);
}
int Step(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  return StepCommand(arguments, out, err, bench::OpenMachine);
}
int Overlap(const Arguments& arguments, std::ostream& out, std::ostream& err) {
  return OverlapCommand(arguments, out, err, bench::OpenMachine);
}

constexpr Command kCommands[] = {
    {"devices", "list the usable GPUs, or explain why there are none", DevicesCommand},
    {"sim", "simulate a schedule of a model: timeline, ledger and step time", Simulate},
    {"kernels", "time every operation of a step against the machine's limits", Kernels},
    {"step", "train a model on one device: tokens per second, MFU and ledger", Step},
    {"overlap", "compare the schedules on this machine", Overlap},
    {"calibrate", "measure the costs that predict what overlap or pipeline will measure",
     CalibrateCommand},
    {"pipeline", "compare the orders of a pipeline on this machine", PipelineCommand},
    {"replicas", "measure how replicas add up their gradients on this machine", ReplicasCommand},
    {"reshard", "move a tensor between meshes over real connections", ReshardCommand},
};

void PrintUsage(std::ostream& out) {
  out << "usage: stretto-bench COMMAND [FLAGS]\n\n";
  for (const Command& command : kCommands) {
    out << "  " << command.name << "\t" << command.summary << "\n";
  }
  out << "\n`stretto-bench COMMAND --help` lists the flags of a command, and `stretto-bench "
         "--version`\nprints the version.\n";
}

int Run(const Arguments& arguments) {
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    PrintUsage(std::cout);
    return 0;
  }
  if (!arguments.empty() && arguments[0] == "--version") {
    std::cout << "stretto-bench " << kBuildVersion << "\n";
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

int main(int argc, char** argv) { return stretto::Run({argv + 1, argv + argc}); }
