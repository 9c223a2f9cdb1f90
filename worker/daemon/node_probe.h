// SPDX-License-Identifier: Apache-2.0
#pragma once
// The resources of this node: its name and its slots. A slot is one CPU core with its share of
// memory, or one GPU.

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
  int core = -1;            // CPU number for the trainer; -1: a GPU's trainer is not bound
  std::string description;  // "cpu core 0", "NVIDIA H200 (GPU 0)"
  int64_t memory_bytes = 0;
  int gpu = -1;          // of a GPU: its index in Nvml::Read
  std::string gpu_uuid;  // empty if the driver reports none
  std::string fault;     // why no rank may run here; empty while healthy
};

struct Node {
  std::string host;
  std::vector<Slot> slots;
};

// `slots` = 0 means every core that this process may run on. If there are more slots than cores,
// they share cores in turn. GPUs follow the cores, one slot each. Errors: INVALID_ARGUMENT
// (negative, or above 1024).
absl::StatusOr<Node> ProbeNode(int slots, const std::vector<Gpu>& gpus = {});

// Converts a host name to a worker name: lower case, other characters than [a-z0-9-] become '-',
// "w-" precedes a digit, at most 63 characters. "worker" if nothing is left.
std::string NameFromHost(absl::string_view host);

}  // namespace stretto::daemon
