// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tiny models that parity tests train.

#include <ostream>
#include <string>

#include "gtest/gtest.h"
#include "tests/worker/engine/layout.h"

namespace stretto {

inline void PrintTo(const Layout& layout, std::ostream* out) { *out << Describe(layout); }

namespace parity {

inline const Layout kDomino = {.schedule = "domino_row", .tp_size = 2, .slices = {2, 2}};

// For names of parametrised tests.
inline std::string NameOfLayout(const ::testing::TestParamInfo<Layout>& info) {
  return Describe(info.param);
}

// Models that train in milliseconds. The vocabulary has padding, on one rank of four a whole shard
// of it; a Llama's queries are in groups of two.
inline ModelSpec ModelOf(Family family) {
  const bool gpt = family == Family::kGpt;
  return {.architecture = ArchitectureOf(family),
          .layers = 2,
          .hidden = gpt ? 16 : 32,
          .heads = gpt ? 4 : 8,
          .kv_heads = 4,
          .ffn_hidden = 48,
          .sequence_length = 8,
          .vocab_size = 90};
}

inline EngineSpec SpecOf(const Layout& layout) {
  return stretto::SpecOf(layout, ModelOf(layout.family));
}

}  // namespace parity
}  // namespace stretto
