// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/options/kernels_options.h"

#include <CLI/CLI.hpp>

#include "proto/base/status_macros.h"
#include "worker/bench/options/flags.h"

namespace stretto::bench {
namespace {

constexpr char kKernelsSummary[] =
    "Times every operation of a model's step in each of its shapes, except collectives, and\n"
    "reports the share that it reaches of the rate of a plain copy or product on the device.";

}  // namespace

absl::StatusOr<KernelsOptions> ParseKernelsOptions(const std::vector<std::string>& arguments) {
  KernelsOptions o;
  CLI::App app{kKernelsSummary, "stretto-bench kernels"};
  app.footer(
      "Example: stretto-bench kernels --device cuda --model llama2-7b --micro-batch 2 "
      "--dtype bf16");
  AddSpecFlags(app, o.spec);
  AddMachineFlags(app, o.machine);
  const auto count = [&](const char* flag, int& value, int low, const char* help) {
    app.add_option(flag, value, help)->check(Integer(low, 1 << 20))->capture_default_str();
  };
  app.add_option("--only", o.only, "text that a row must contain (default: all rows)");
  count("--repeats", o.timing.repeats, 1, "number of timed runs, of which a time is the median");
  count("--warm-up", o.timing.warm_up, 0, "number of runs before the timed ones");
  count("--working-set-mib", o.working_set_mib, 1, "memory of all copies of an operation in MiB");
  count("--limit-size", o.limit_size, 0,
        "rows and columns of the matrices for the limits; 0: 8192 on a GPU, 2048 on a CPU");
  app.add_option("--json", o.json, "file for a copy of the result as JSON");
  ASSIGN_OR_RETURN(o.help, ParseFlags(app, arguments));
  o.timing.working_set = int64_t{o.working_set_mib} << 20;
  if (o.limit_size == 0) o.limit_size = o.machine.device == "cpu" ? 2048 : 8192;
  return o;
}

}  // namespace stretto::bench
