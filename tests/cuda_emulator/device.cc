// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <vector>

#include "tests/cuda_emulator/fibers.h"
#include "tests/cuda_emulator/state.h"

namespace cuda_emulator {

ThreadPosition position;

namespace {

struct Barrier {
  int arrived = 0;
  unsigned generation = 0;
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  bool valid;
};

struct Block {
  Fibers fibers;
  int threads = 0;
  std::vector<ThreadPosition> positions;
  Barrier barrier;
  std::vector<Barrier> warps;
  std::vector<std::array<std::byte, 64>> places;  // of warps in turn
  std::vector<std::byte> shared;
  std::vector<std::vector<Copy>> copies;  // of each thread, begun and not awaited
};

Block& block() {
  static auto* block = new Block;
  return *block;
}

uint64_t seed = 0;

std::map<const void*, size_t>& allowed_shared() {
  static auto* allowed = new std::map<const void*, size_t>;
  return *allowed;
}

int Self() { return block().fibers.current(); }

void Await(Barrier& barrier, int expected) {
  Fibers& fibers = block().fibers;
  const unsigned generation = barrier.generation;
  if (++barrier.arrived == expected) {
    barrier.arrived = 0;
    ++barrier.generation;
    fibers.Progress();
    return;
  }
  while (barrier.generation == generation) {
    fibers.Yield();
    position = block().positions[static_cast<size_t>(Self())];
  }
}

[[noreturn]] void Stuck() {
  std::fprintf(stderr,
               "cuda_emulator: block %u,%u,%u: some threads wait at a barrier that others of the "
               "block or warp never reach\n",
               position.block.x, position.block.y, position.block.z);
  std::abort();
}

void Resize(const cudaLaunchConfig_t& config) {
  Block& b = block();
  const dim3 size = config.blockDim;
  b.threads = static_cast<int>(size.x * size.y * size.z);
  const size_t warps = static_cast<size_t>((b.threads + kWarp - 1) / kWarp);
  b.positions.resize(static_cast<size_t>(b.threads));
  b.warps.assign(warps, {});
  b.places.resize(warps * kWarp);
  b.copies.assign(static_cast<size_t>(b.threads), {});
  b.barrier = {};
  b.fibers.on_stuck = Stuck;
}

// Threads in the order of the seed.
std::vector<int> Order(int threads, uint64_t salt) {
  std::vector<int> order(static_cast<size_t>(threads));
  std::iota(order.begin(), order.end(), 0);
  if (seed != 0) {
    std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + salt);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  }
  return order;
}

void RunBlock(const cudaLaunchConfig_t& config, uint3 index, const std::function<void()>& thread) {
  Block& b = block();
  Resize(config);
  // What a block finds in shared memory is whatever lay there.
  b.shared.assign(config.dynamicSmemBytes + 16, std::byte{0xff});
  for (int i = 0; i < b.threads; ++i) {
    const unsigned n = static_cast<unsigned>(i);
    const dim3 size = config.blockDim;
    b.positions[n] = {{n % size.x, n / size.x % size.y, n / size.x / size.y},
                      index,
                      config.blockDim,
                      config.gridDim};
  }
  b.fibers.Run(Order(b.threads, (uint64_t{index.x} << 32) + index.y + index.z), [&](int i) {
    position = block().positions[static_cast<size_t>(i)];
    thread();
  });
}

}  // namespace

void BlockBarrier() { Await(block().barrier, block().threads); }

void WarpBarrier() {
  Block& b = block();
  const int warp = Self() / kWarp;
  Await(b.warps[static_cast<size_t>(warp)], std::min(kWarp, b.threads - warp * kWarp));
}

void* WarpPlace(int lane) {
  return block().places[static_cast<size_t>(Self() / kWarp * kWarp + lane)].data();
}

int Lane() { return Self() % kWarp; }

void* DynamicShared() {
  const auto at = reinterpret_cast<uintptr_t>(block().shared.data());
  return reinterpret_cast<void*>((at + 15) & ~uintptr_t{15});
}

void CopyLater(void* to, const void* from, size_t bytes, bool valid) {
  const auto at = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  if (at % bytes != 0) {
    std::fprintf(stderr, "cuda_emulator: an asynchronous copy of %zu bytes is not aligned\n",
                 bytes);
    std::abort();
  }
  block().copies[static_cast<size_t>(Self())].push_back({to, from, bytes, valid});
}

void FinishCopies() {
  auto& copies = block().copies[static_cast<size_t>(Self())];
  for (const Copy& copy : copies) {
    if (copy.valid) {
      std::memcpy(copy.to, copy.from, copy.bytes);
    } else {
      std::memset(copy.to, 0, copy.bytes);
    }
  }
  copies.clear();
}

void ExpectAligned(const void* address, size_t bytes) {
  if (reinterpret_cast<uintptr_t>(address) % bytes == 0) return;
  std::fprintf(stderr, "cuda_emulator: block %u,%u,%u: an access of %zu bytes is not aligned\n",
               position.block.x, position.block.y, position.block.z, bytes);
  std::abort();
}

void AllowShared(const void* kernel, size_t bytes) { allowed_shared()[kernel] = bytes; }
size_t AllowedShared(const void* kernel) {
  const auto at = allowed_shared().find(kernel);
  return at == allowed_shared().end() ? kSharedOfAll : std::max(kSharedOfAll, at->second);
}

void Seed(uint64_t value) { seed = value; }
uint64_t CurrentSeed() { return seed; }

void RunGrid(const cudaLaunchConfig_t& config, const std::function<void()>& thread) {
  const dim3 grid = config.gridDim;
  const unsigned blocks = grid.x * grid.y * grid.z;
  for (int n : Order(static_cast<int>(blocks), 1)) {
    const unsigned i = static_cast<unsigned>(n);
    RunBlock(config, {i % grid.x, i / grid.x % grid.y, i / grid.x / grid.y}, thread);
  }
}

}  // namespace cuda_emulator
