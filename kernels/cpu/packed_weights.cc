// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/packed_weights.h"

#include <functional>

#include "kernels/cpu/aligned_memory.h"
#include "proto/base/check.h"

namespace stretto::cpu {

struct PackedWeights::Entry {
  AlignedMemory memory;
  size_t bytes = 0;
  int leases = 0;
  bool valid = false;
  Mutex packing;
};

PackedWeights::PackedWeights() = default;
PackedWeights::~PackedWeights() = default;

const void* PackedWeights::Lease::data() const { return entry_->memory.get(); }

void PackedWeights::Lease::Release::operator()(Entry* entry) const {
  const MutexLock lock(owner->mutex_);
  --entry->leases;
}

PackedWeights::Entry& PackedWeights::FindOrMake(const PackedKey& key, size_t bytes) {
  if (const auto found = entries_.find(key); found != entries_.end()) return *found->second;
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    const Entry& entry = *at->second;
    if (entry.valid || entry.leases > 0 || entry.bytes != bytes) continue;
    auto node = entries_.extract(at);
    node.key() = key;
    return *entries_.insert(std::move(node)).position->second;
  }
  Entry& entry = *entries_.emplace(key, std::make_unique<Entry>()).first->second;
  entry.memory = AllocateAligned(bytes);
  entry.bytes = bytes;
  return entry;
}

PackedWeights::Lease PackedWeights::Get(const PackedKey& key, size_t bytes,
                                        const std::function<void(void*)>& pack) {
  MutexLock lock(mutex_);
  Entry& entry = FindOrMake(key, bytes);
  STRETTO_CHECK(entry.bytes == bytes);
  ++entry.leases;
  if (entry.valid) return Lease(this, &entry);
  lock.Unlock();
  // Another lane may need the form at the same time: one packs it, the other waits.
  const MutexLock packing(entry.packing);
  lock.Lock();
  if (entry.valid) return Lease(this, &entry);
  lock.Unlock();
  pack(entry.memory.get());
  lock.Lock();
  entry.valid = true;
  return Lease(this, &entry);
}

void PackedWeights::Changed() {
  const MutexLock lock(mutex_);
  for (auto& [key, entry] : entries_) entry->valid &= entry->leases > 0;
}

void PackedWeights::Changed(const void* begin, size_t bytes) {
  const void* const end = static_cast<const char*>(begin) + bytes;
  const MutexLock lock(mutex_);
  for (auto at = entries_.lower_bound({begin, {}}); at != entries_.end(); ++at) {
    if (!std::less<>()(at->first.weight, end)) break;
    at->second->valid = false;
  }
}

}  // namespace stretto::cpu
