// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of an emulated link (worker/comm/emulated_link). They are apart from its code, which
// needs a device, for programs that ask a plug-in for a link.

#include "absl/time/time.h"

namespace stretto {

struct EmulatedLinkOptions {
  int rank = 0;
  int size = 1;
  int blocks = 2;  // at least 1; each occupies an SM
  absl::Duration latency;
  double bytes_per_second = 0;
};

}  // namespace stretto
