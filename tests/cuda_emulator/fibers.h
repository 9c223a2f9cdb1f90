// SPDX-License-Identifier: Apache-2.0
#pragma once
// Threads of a block as fibers on one thread of the process.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace cuda_emulator {

// Runs `count` fibers until all have ended; they give way to each other in Yield.
class Fibers {
 public:
  // Body of fiber number i. Called on the fiber's own stack of 256 KiB.
  using Body = std::function<void(int)>;

  // `order`: the fibers' numbers, in the order in which they take turns.
  void Run(const std::vector<int>& order, const Body& body);

  int current() const { return current_; }
  // The next fiber's turn. Returns when the others have had theirs.
  void Yield();
  // Says that something happened that a waiting fiber may wait for. A round without ends the
  // process through `on_stuck`.
  void Progress() { progressed_ = true; }
  std::function<void()> on_stuck;

 private:
  struct Fiber {
    std::unique_ptr<std::byte[]> stack;
    void* stack_pointer = nullptr;
    void* sanitizer = nullptr;
    bool ended = true;
  };
  static void Enter();
  void Prepare(Fiber& fiber);
  void SwitchTo(Fiber& fiber);
  void SwitchBack(bool ended);

  std::vector<Fiber> fibers_;
  const Body* body_ = nullptr;
  int current_ = -1;
  bool progressed_ = false;
  void* scheduler_ = nullptr;  // its stack pointer
  void* sanitizer_ = nullptr;
  const void* scheduler_bottom_ = nullptr;
  size_t scheduler_size_ = 0;
};

}  // namespace cuda_emulator
