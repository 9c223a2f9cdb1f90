// SPDX-License-Identifier: Apache-2.0
#pragma once
// The environment of a trainer.

#include <string>
#include <vector>

namespace stretto::daemon {

// Returns "NAME=value" entries: a short allow-list of ours, and OMP_NUM_THREADS=1. With a GPU also:
// visibility of only that GPU, the settings that its streams need, our NCCL_* variables and, unless
// NCCL_SOCKET_IFNAME is among them, the network interface that has `address` (numeric) for NCCL's
// sockets.
std::vector<std::string> TrainerEnvironment(const std::string& gpu_uuid,
                                            const std::string& address);

// Returns the name of the network interface with this address; empty if none has it.
std::string InterfaceWith(const std::string& address);

}  // namespace stretto::daemon
