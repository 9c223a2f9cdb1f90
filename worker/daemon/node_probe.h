// SPDX-License-Identifier: Apache-2.0
#pragma once
// What this node can lend: its name and its slots. A slot is one CPU core and its share of memory,
// or one GPU.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/daemon/nvml.h"

namespace stretto::daemon {

enum class SlotKind { kCpu, kGpu };

struct Slot {
  int index = 0;
  SlotKind kind = SlotKind::kCpu;
  int core = -1;            // CPU number the trainer is bound to; -1: a GPU's trainer is not bound
  std::string description;  // "cpu core 0", "NVIDIA H200 (GPU 0)"
  int64_t memory_bytes = 0;
  int gpu = -1;          // of a GPU: its place in Nvml::Read
  std::string gpu_uuid;  // empty when the GPU could not tell
  std::string fault;     // why nothing may run here; empty while healthy
};

struct Node {
  std::string host;
  std::vector<Slot> slots;
};

// `slots` = 0 takes every core this process may run on. More slots than cores share cores in turn.
// GPUs come after the cores, one slot each. INVALID_ARGUMENT: negative, or above 1024.
absl::StatusOr<Node> ProbeNode(int slots, const std::vector<Gpu>& gpus = {});

// A worker name made of a host name: lower case, what is not [a-z0-9-] becomes '-', "w-" before a
// digit, cut to 63. "worker" when nothing is left.
std::string NameFromHost(absl::string_view host);

}  // namespace stretto::daemon
