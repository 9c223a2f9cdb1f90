// SPDX-License-Identifier: Apache-2.0
#pragma once
// Distinct types for numbers that must not be confused. A StrongId does not convert to another one
// or to an integer.

#include <compare>
#include <cstdint>
#include <string>
#include <utility>

#include "proto/base/index.h"

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

// Fencing token of an assignment: increases with every attempt of every job and is never reused. 0
// means none.
using Epoch = StrongId<struct EpochTag, int64_t>;
// Index of a trainer within its job, 0 <= rank < world size.
using Rank = Index<struct RankTag>;
// Position of a rank in one of its groups (Group::ranks): what its communicator calls its rank.
using GroupRank = Index<struct GroupRankTag>;
// Position of a rank among those that share a device.
using LocalRank = Index<struct LocalRankTag>;

// Returns true for names that people may give to jobs and workers: 1-63 of [a-z0-9-], starting with
// a letter and not ending with '-'. This is a DNS label, so names can become paths, labels and
// Kubernetes objects.
bool IsValidName(const std::string& name);

// The user who calls a coordinator without TLS. No certificate has this name.
inline constexpr char kLocalUser[] = "local";

// Returns 32 hexadecimal digits of fresh randomness: for uids, incarnations and request ids.
std::string NewUid();

}  // namespace stretto
