// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/common/process_cpu.h"

#include <time.h>

namespace stretto::bench {

double ProcessCpuSeconds() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace stretto::bench
