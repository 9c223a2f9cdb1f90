// SPDX-License-Identifier: Apache-2.0
#pragma once
// Several workers on one machine must not share cores: a trainer is bound to a core of its
// worker's.

#include <sched.h>

namespace stretto::cli {

// While it lives, the calling thread, and so the children it forks, may run only on share `index`
// of the cores it could use before: `count` cores from index * count on, in turn where there are
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
