#pragma once
// What an emulated link is told (worker/comm/emulated_link), apart from the code for a device, for
// who asks a plug-in for one.

#include "absl/time/time.h"

namespace stretto {

struct EmulatedLinkOptions {
  int rank = 0;
  int size = 1;
  int blocks = 2;  // each takes an SM; 0: copy engines alone
  absl::Duration latency;
  double bytes_per_second = 0;
};

}  // namespace stretto
