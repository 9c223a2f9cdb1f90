// SPDX-License-Identifier: Apache-2.0
#pragma once
// The environment that a trainer gets.

#include <string>
#include <vector>

namespace stretto::daemon {

// "NAME=value": a short allow-list of ours, plus OMP_NUM_THREADS=1. With a GPU also: that one alone
// is visible, what its streams need, our NCCL_* variables and, unless NCCL_SOCKET_IFNAME is among
// them, the network interface that has `address` (numeric) for NCCL's sockets.
std::vector<std::string> TrainerEnvironment(const std::string& gpu_uuid,
                                            const std::string& address);

// The name of the network interface with this address; empty: none has it.
std::string InterfaceWith(const std::string& address);

}  // namespace stretto::daemon
