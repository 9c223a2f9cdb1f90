// SPDX-License-Identifier: Apache-2.0
#pragma once
// Groups of every kind for the conformance suite, and threads to run them.

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/comm/communicator.h"
#include "worker/comm/delayed.h"
#include "worker/comm/gloo/gloo_communicator.h"
#include "worker/comm/local/local.h"
#include "worker/comm/paced.h"
#include "worker/comm/store.h"

namespace stretto::testing {

using Ranks = std::vector<std::unique_ptr<Communicator>>;

// Runs body(rank) on one thread per rank and waits for all.
inline void OnEveryRank(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

inline void OnEveryRank(const Ranks& ranks, const std::function<void(Communicator&)>& body) {
  OnEveryRank(static_cast<int>(ranks.size()),
              [&](int rank) { body(*ranks[static_cast<size_t>(rank)]); });
}

// Runs `call` on a thread of its own. The constructor returns once that thread sleeps in the
// kernel: the call is then blocked (or, in a decorator's sleep, about to be).
class BlockedCall {
 public:
  explicit BlockedCall(std::function<void()> call)
      : thread_([this, call = std::move(call)] {
          id_ = static_cast<int>(syscall(SYS_gettid));
          call();
          returned_ = true;
        }) {
    const auto asleep = [this] {
      std::ifstream stat("/proc/self/task/" + std::to_string(id_.load()) + "/stat");
      const std::string line((std::istreambuf_iterator<char>(stat)), {});
      return line.find(") S ") != std::string::npos;
    };
    while (!returned_ && (id_ == 0 || !asleep())) std::this_thread::yield();
  }
  void join() { thread_.join(); }

 private:
  std::atomic<int> id_{0};
  std::atomic<bool> returned_{false};
  std::thread thread_;
};

inline Ranks Local(int size) { return LocalGroup::Create(size); }

inline Ranks Gloo(int size, absl::Duration timeout = absl::Seconds(60)) {
  MemoryStore store;
  Ranks ranks(static_cast<size_t>(size));
  OnEveryRank(size, [&](int rank) {
    auto communicator = GlooCommunicator::Connect({.rank = rank,
                                                   .size = size,
                                                   .store = &store,
                                                   .prefix = "test",
                                                   .network = *OpenGlooNetwork("127.0.0.1"),
                                                   .timeout = timeout});
    ASSERT_TRUE(communicator.ok()) << communicator.status();
    ranks[static_cast<size_t>(rank)] = *std::move(communicator);
  });
  return ranks;
}

inline Ranks PacedLocal(int size) {
  Ranks ranks = Local(size);
  for (auto& rank : ranks) {
    rank = std::make_unique<PacedCommunicator>(
        std::move(rank), Link{.bytes_per_second = 1e9, .latency = absl::Microseconds(20)});
  }
  return ranks;
}

inline Ranks DelayedLocal(int size) {
  Ranks ranks = Local(size);
  for (auto& rank : ranks) {
    rank = std::make_unique<DelayedCommunicator>(std::move(rank), 7, absl::Microseconds(300));
  }
  return ranks;
}

struct Kind {
  std::string name;
  std::function<Ranks(int size)> create;
};

inline std::vector<Kind> AllKinds() {
  return {{"local", Local},
          {"gloo", [](int size) { return Gloo(size); }},
          {"paced_local", PacedLocal},
          {"delayed_local", DelayedLocal}};
}

inline void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

}  // namespace stretto::testing
