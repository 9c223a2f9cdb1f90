#pragma once
// What this node can lend: its name and its slots. A slot is one CPU core and its share of memory.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace stretto::daemon {

struct Slot {
  int index = 0;
  int core = 0;             // CPU number the trainer is bound to
  std::string description;  // "cpu core 0"
  int64_t memory_bytes = 0;
};

struct Node {
  std::string host;
  std::vector<Slot> slots;
};

// `slots` = 0 takes every core this process may run on. More slots than cores share cores in turn.
// INVALID_ARGUMENT: negative, or above 1024.
absl::StatusOr<Node> ProbeNode(int slots);

// A worker name made of a host name: lower case, what is not [a-z0-9-] becomes '-', "w-" before a
// digit, cut to 63. "worker" when nothing is left.
std::string NameFromHost(absl::string_view host);

}  // namespace stretto::daemon
