// SPDX-License-Identifier: Apache-2.0

// The management library of a driver that has two GPUs.
#include "tests/worker/daemon/fake_nvml/fake_nvml.h"

namespace fake_nvml {
namespace {

[[maybe_unused]] const bool filled = [] {
  state().gpus = {{.uuid = "GPU-a", .total = 1 << 20, .free = 1 << 20},
                  {.uuid = "GPU-b", .total = 1 << 20, .free = 1 << 20}};
  return true;
}();

}  // namespace
}  // namespace fake_nvml
