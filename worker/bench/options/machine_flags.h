// SPDX-License-Identifier: Apache-2.0
#pragma once
// Flags for the machine that a benchmark runs on.

#include <string>

#include "worker/engine/spec/spec.h"

namespace CLI {
class App;
}

namespace stretto::bench {

struct MachineFlags {
  std::string device = "cpu";  // or "cuda"
  int index = 0;               // of the device, in its backend's numbering
  std::string tuning = {};     // folder of measured choices; empty: none
  int collective_sms = 0;      // DeviceOptions::collective_sms
  int64_t tokens = 4096;       // DeviceOptions::tokens; no flag, commands take it from the work

  // What programs for the machine have.
  LibraryAttention library_attention() const {
    return device == "cpu" ? LibraryAttention::kNone : LibraryAttention::kVarying;
  }
};

// "--device", "--device-index", "--tuning". `flags` must outlive `app`.
void AddMachineFlags(CLI::App& app, MachineFlags& flags);

}  // namespace stretto::bench
