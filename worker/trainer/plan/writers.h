// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which rank writes which part of a checkpoint. Every part is written once, and all ranks decide
// alike.

#include <cstdint>
#include <vector>

#include "proto/base/ids.h"
#include "worker/engine/spec/spec.h"

namespace stretto::trainer {

class Writers {
 public:
  explicit Writers(const EngineSpec& spec);

  // Whether the rank writes what it holds of a parameter, by Parameter::index.
  bool Writes(Rank rank, size_t parameter) const;
  // The bytes of master weights and moments that the rank writes. A copy of them, which is written
  // while training continues, takes as much.
  int64_t BytesOf(Rank rank) const;
  // Those of all ranks: the tensors of a checkpoint.
  int64_t bytes() const;

 private:
  std::vector<std::vector<Rank>> writers_;  // by parameter
  std::vector<int64_t> elements_;           // by rank
};

}  // namespace stretto::trainer
