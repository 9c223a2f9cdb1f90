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

// Which form of which weight.
struct PackedKey {
  const void* weight = nullptr;
  RowProduct product;

  auto operator<=>(const PackedKey&) const = default;
};

// Thread-safe. A changed form keeps its memory for the next one of its size, under whatever
// address, so there is never more memory than the most forms of a size that were valid at once.
class PackedWeights {
 private:
  struct Entry;

 public:
  // A form in use: stays as it is until this is gone.
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

  // The form of `bytes` bytes, 64-byte aligned, which pack(memory) writes where it is not there.
  Lease Get(const PackedKey& key, size_t bytes, const std::function<void(void*)>& pack);

  // All weights may have changed. A form in use is of an executor in the middle of its step, whose
  // weights have not.
  void Changed();
  // The weights that begin in [begin, begin + bytes) have changed.
  void Changed(const void* begin, size_t bytes);

 private:
  Entry& FindOrMake(const PackedKey& key, size_t bytes) REQUIRES(mutex_);

  Mutex mutex_;  // of the map and its entries, but not of the memory they own
  std::map<PackedKey, std::unique_ptr<Entry>> entries_ GUARDED_BY(mutex_);
};

}  // namespace stretto::cpu
