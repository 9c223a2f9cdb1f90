// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of `stretto-bench kernels`.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/bench/options/machine_flags.h"
#include "worker/bench/options/spec_flags.h"

namespace stretto::bench {

struct KernelTiming {
  // Minimum total size of the copies of a case in bytes: several times the size of caches.
  int64_t working_set = int64_t{256} << 20;
  int warm_up = 3;  // runs that choose algorithms, compile, and record graphs
  int repeats = 10;
};

struct KernelsOptions {
  std::string help;  // if not empty, print it and do nothing else
  std::string json, only;
  SpecFlags spec = {.tp = 1};
  MachineFlags machine;
  KernelTiming timing;
  int working_set_mib = 256;
  int limit_size = 0;  // of the limits' matrices; 0: by the device
};

// Errors: InvalidArgument, in one line: the flag, found and expected.
absl::StatusOr<KernelsOptions> ParseKernelsOptions(const std::vector<std::string>& arguments);

}  // namespace stretto::bench
