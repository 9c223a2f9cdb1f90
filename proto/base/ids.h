// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers that must not be mixed up. A StrongId does not convert to another one or to an integer.

#include <compare>
#include <cstdint>
#include <string>

namespace stretto {

template <class Tag, class T>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(T value) : value_(value) {}
  constexpr T value() const { return value_; }
  auto operator<=>(const StrongId&) const = default;

  template <class H>
  friend H AbslHashValue(H h, const StrongId& id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  T value_{};
};

// Fencing token of an assignment: grows with every attempt of every job, never reused. 0 = none.
using Epoch = StrongId<struct EpochTag, int64_t>;
// Index of a trainer within its job, 0 <= rank < world size.
using Rank = StrongId<struct RankTag, int32_t>;

// True for names people may give to jobs and workers: 1-63 of [a-z0-9-], starting with a letter and
// not ending with '-' (a DNS label, so that names can become paths, labels and Kubernetes objects).
bool IsValidName(const std::string& name);

// 32 hexadecimal digits of fresh randomness: uids, incarnations, request ids.
std::string NewUid();

}  // namespace stretto
