// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packed forms of weights, kept until the weight changes.

#include <cstddef>
#include <functional>
#include <map>
#include <memory>

#include "kernels/cpu/matmul.h"
#include "proto/base/mutex.h"

namespace stretto::cpu {

// Identifies a form of a weight.
struct PackedKey {
  const void* weight = nullptr;
  RowProduct product;

  auto operator<=>(const PackedKey&) const = default;
};

// Thread-safe. The memory of a changed form serves the next form of its size, at whatever address,
// so memory never exceeds the maximum of the forms of each size that were valid at once.
class PackedWeights {
 private:
  struct Entry;

 public:
  // A form in use, which does not change while the lease exists.
  class Lease {
   public:
    Lease(Lease&& other) noexcept = default;
    const void* data() const;

   private:
    friend class PackedWeights;
    struct Release {
      PackedWeights* owner;
      void operator()(Entry* entry) const;
    };
    explicit Lease(PackedWeights* owner, Entry* entry) : entry_(entry, {owner}) {}
    std::unique_ptr<Entry, Release> entry_;
  };

  PackedWeights();
  ~PackedWeights();

  // Returns the form of `bytes` bytes, 64-byte aligned; pack(memory) writes it if it is missing.
  Lease Get(const PackedKey& key, size_t bytes, const std::function<void(void*)>& pack);

  // Invalidates all forms, except those in use: they belong to an executor in the middle of its
  // step, whose weights have not changed.
  void Changed();
  // Invalidates the forms of weights that begin in [begin, begin + bytes).
  void Changed(const void* begin, size_t bytes);

 private:
  Entry& FindOrMake(const PackedKey& key, size_t bytes) REQUIRES(mutex_);

  Mutex mutex_;  // of the map and its entries, but not of the memory they own
  std::map<PackedKey, std::unique_ptr<Entry>> entries_ GUARDED_BY(mutex_);
};

}  // namespace stretto::cpu
