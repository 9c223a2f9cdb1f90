// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_emulator/fibers.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the registers that a call must keep, and continues where `next` left off.
extern "C" void stretto_switch_fiber(void** saved, void* next);
asm(R"(
.text
.type stretto_switch_fiber, @function
.globl stretto_switch_fiber
stretto_switch_fiber:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size stretto_switch_fiber, .-stretto_switch_fiber
)");

namespace cuda_emulator {
namespace {

constexpr size_t kStack = 256 * 1024;
Fibers* running = nullptr;

// The thread sanitizer keeps one shadow stack for all fibers of a thread. A function that a fiber
// never returns from must not be on it.
#define OFF_THE_SHADOW_STACK __attribute__((no_sanitize_thread))

// What the address sanitizer must know of a change of stacks.
void LeaveStack([[maybe_unused]] void** keep, [[maybe_unused]] const void* bottom,
                [[maybe_unused]] size_t size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(keep, bottom, size);
#endif
}
void ArriveOnStack([[maybe_unused]] void* kept, [[maybe_unused]] const void** bottom,
                   [[maybe_unused]] size_t* size) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(kept, bottom, size);
#endif
}

}  // namespace

OFF_THE_SHADOW_STACK void Fibers::Enter() {
  Fibers& self = *running;
  ArriveOnStack(nullptr, &self.scheduler_bottom_, &self.scheduler_size_);
  (*self.body_)(self.current_);
  self.SwitchBack(true);
}

void Fibers::Prepare(Fiber& fiber) {
  if (fiber.stack == nullptr) fiber.stack.reset(new std::byte[kStack]);
  // As the switch leaves a stack: six registers, then where to go on; a call finds the stack 8
  // bytes off a multiple of 16.
  auto top = reinterpret_cast<uintptr_t>(fiber.stack.get() + kStack) & ~uintptr_t{15};
  auto* frame = reinterpret_cast<void**>(top) - 8;
  for (int i = 0; i < 6; ++i) frame[i] = nullptr;
  frame[6] = reinterpret_cast<void*>(&Fibers::Enter);
  frame[7] = nullptr;
  fiber.stack_pointer = frame;
  fiber.ended = false;
}

void Fibers::SwitchTo(Fiber& fiber) {
  LeaveStack(&sanitizer_, fiber.stack.get(), kStack);
  stretto_switch_fiber(&scheduler_, fiber.stack_pointer);
  ArriveOnStack(sanitizer_, nullptr, nullptr);
}

OFF_THE_SHADOW_STACK void Fibers::SwitchBack(bool ended) {
  Fiber& fiber = fibers_[static_cast<size_t>(current_)];
  fiber.ended = ended;
  LeaveStack(ended ? nullptr : &fiber.sanitizer, scheduler_bottom_, scheduler_size_);
  stretto_switch_fiber(&fiber.stack_pointer, scheduler_);
  ArriveOnStack(fiber.sanitizer, &scheduler_bottom_, &scheduler_size_);
}

void Fibers::Yield() { SwitchBack(false); }

void Fibers::Run(const std::vector<int>& order, const Body& body) {
  running = this;
  body_ = &body;
  if (fibers_.size() < order.size()) fibers_.resize(order.size());
  for (int i : order) Prepare(fibers_[static_cast<size_t>(i)]);
  size_t left = order.size();
  while (left > 0) {
    progressed_ = false;
    for (int i : order) {
      Fiber& fiber = fibers_[static_cast<size_t>(i)];
      if (fiber.ended) continue;
      current_ = i;
      SwitchTo(fiber);
      if (!fiber.ended) continue;
      --left;
      progressed_ = true;
    }
    if (!progressed_ && left > 0) on_stuck();
  }
}

}  // namespace cuda_emulator
