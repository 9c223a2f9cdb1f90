// SPDX-License-Identifier: Apache-2.0
#pragma once
// A driver's management library (fake_nvml.cc is built as one) with GPUs that tests make up.

#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace fake_nvml {

struct Gpu {
  std::string uuid;
  std::string name = "Fake GPU";
  unsigned long long total = 0, free = 0;
  unsigned long long ecc = 0;
  int ecc_result = 0;  // of asking for it; 3: not supported
  unsigned rows_pending = 0, rows_failed = 0;
  int result = 0;  // of everything else; 15: lost
  int handle_result = 0;
  size_t returns = 0;  // how often it came back: handles from before are of no use
};

struct State {
  int init = 0;
  int events = 0;  // result of making an event set
  std::vector<Gpu> gpus;
  std::deque<std::pair<int, unsigned long long>> xids;  // (GPU, Xid) still to be told
  std::function<void()> at_reading;                     // called once in every reading, if given
  int started = 0;                                      // times initialised less times shut down
};

// The library's; a test may change it whenever no reading is under way.
State& state();

}  // namespace fake_nvml
