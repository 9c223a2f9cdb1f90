// SPDX-License-Identifier: Apache-2.0
#include "coordinator/cli/local/affinity.h"

#include <vector>

namespace stretto::cli {

CoreShare::CoreShare(int index, int count) {
  CPU_ZERO(&before_);
  if (sched_getaffinity(0, sizeof(before_), &before_) != 0) return;
  std::vector<size_t> cores;
  for (size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &before_)) cores.push_back(core);
  }
  if (cores.empty()) return;
  cpu_set_t share;
  CPU_ZERO(&share);
  for (int i = 0; i < count; ++i) CPU_SET(cores[(index * count + i) % cores.size()], &share);
  changed_ = sched_setaffinity(0, sizeof(share), &share) == 0;
}

CoreShare::~CoreShare() {
  if (changed_) sched_setaffinity(0, sizeof(before_), &before_);
}

}  // namespace stretto::cli
