// SPDX-License-Identifier: Apache-2.0
#pragma once
// Machines for tests of the commands: this CPU, an emulated device, and such that fail.

#include "tests/worker/engine/exec/wrong_bit.h"
#include "worker/bench/common/machine.h"

namespace stretto::bench {

// The name of the emulated device; one that the table of peaks knows, so that there is an MFU.
inline constexpr char kEmulatedName[] = "NVIDIA H200 (emulated)";

absl::StatusOr<Machine> EmulatedMachine(const MachineFlags& flags);

// After this number of good runs of its executors every result has a value that is not finite.
MachineOpener BrokenMachine(int good_runs = 0);

// The emulated device, which computes one bit wrongly.
MachineOpener WrongBitMachine(const WrongBit& wrong);

// Has no more than this many bytes left.
MachineOpener SmallMachine(int64_t free_bytes);

}  // namespace stretto::bench
