// SPDX-License-Identifier: Apache-2.0
#pragma once
// Groups of every kind of DeviceCommunicator whose device is host memory, for the conformance
// suite. One thread drives all ranks, as an executor does.

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "proto/base/clock.h"
#include "tests/worker/comm/device/fake_nccl/fake_nccl.h"
#include "worker/comm/device_communicator.h"
#include "worker/comm/device_wait.h"
#include "worker/comm/nccl/nccl_communicator.h"
#include "worker/comm/store.h"

namespace stretto::testing {

using DeviceRanks = std::vector<std::unique_ptr<DeviceCommunicator>>;

// A clock that advances by a second whenever somebody waits.
struct WaitingClock {
  FakeClock clock;
  Polling polling() {
    return {.clock = &clock, .pause = [this] { clock.Advance(absl::Seconds(1)); }};
  }
};

// The stream of a rank: an address, nothing more.
inline void* StreamOf(int rank) {
  static char streams[64];
  return &streams[rank];
}

// `change` may alter the options of a rank.
inline DeviceRanks Nccl(int size, const std::function<void(NcclOptions&)>& change = nullptr) {
  MemoryStore store;
  DeviceRanks ranks(static_cast<size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      NcclOptions options = {
          .rank = rank, .size = size, .store = &store, .prefix = "tp", .library = FAKE_NCCL};
      if (change) change(options);
      auto communicator = NcclCommunicator::Connect(options);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      ranks[static_cast<size_t>(rank)] = *std::move(communicator);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ranks;
}

struct DeviceKind {
  std::string name;
  std::function<DeviceRanks(int size)> create;
  std::function<bool(void* stream)> idle;
};

inline std::vector<DeviceKind> AllDeviceKinds() {
  return {{"nccl", [](int size) { return Nccl(size); }, fake_nccl::Idle},
          {"nccl_slow",
           [](int size) {
             fake_nccl::Set({.in_progress = 3});
             return Nccl(size);
           },
           fake_nccl::Idle}};
}

inline void PrintTo(const DeviceKind& kind, std::ostream* out) { *out << kind.name; }

}  // namespace stretto::testing
