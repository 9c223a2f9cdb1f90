// SPDX-License-Identifier: Apache-2.0
#pragma once
// Divides the cores among several workers on one machine: a trainer is bound to a core of its
// worker, so workers must not share cores.

#include <sched.h>

namespace stretto::cli {

// During its lifetime, the calling thread, and so the children that it forks, may run only on share
// `index` of its previous cores: `count` cores from index * count on, wrapping around if there are
// too few.
class CoreShare {
 public:
  CoreShare(int index, int count);
  ~CoreShare();
  CoreShare(const CoreShare&) = delete;
  CoreShare& operator=(const CoreShare&) = delete;

 private:
  cpu_set_t before_;
  bool changed_ = false;
};

}  // namespace stretto::cli
