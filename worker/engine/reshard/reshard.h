// SPDX-License-Identifier: Apache-2.0
#pragma once
// Moves a tensor from one tiling to another, for example between the stages of a pipeline whose
// meshes differ: who sends which box to whom, and in which order. (Zhuang et al. 2023, "On
// Optimizing the Communication of Model Parallelism"; Alpa, cross_mesh_resharding.py.)
//
// A box that several ranks need travels along a chain: each of them passes on what it receives, in
// chunks, so every network interface carries the box once. Load is counted per node, because ranks
// of a node share its interface, and in bytes of the box that is sent. Pure and deterministic: all
// ranks compute the same plan.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/engine/cost/topology.h"
#include "worker/engine/reshard/tiling.h"

namespace stretto {

// A node of the topology has one network interface, and moves data within itself in no time.
struct LinkCost {
  double bytes_per_second = 0;  // of an interface, each way
  double latency_seconds = 0;   // of a message
};

enum class ReshardMode : uint8_t {
  kSend,    // the sender sends to each receiver
  kChain,   // a chain of all receivers
  kGather,  // each receiver on a node gets an equal part, and the node's receivers exchange them
  kAuto,    // for each box the cheapest of the three
};

// How a plan is made. The defaults are the best; the others are what they are compared with.
struct ReshardRules {
  ReshardMode mode = ReshardMode::kAuto;
  bool balances = true;  // the sender is chosen by what its node sends; or it is the first holder
  bool orders = true;    // steps have the order of least time; or that of the target's tiles
};

struct Step {
  enum class Kind : uint8_t {
    kChain,  // ranks[0] has `box`; each later rank receives it from the one before it
    // ranks[i] has part i of n equal parts of `box` along dimension `cut`; all get the box.
    kGather,
  };
  Kind kind = Kind::kChain;
  Box box;
  std::vector<Rank> ranks;
  int cut = 0;              // of a gather
  int64_t chunk_bytes = 0;  // of a chain; at least 1
};

// What a rank has already and only copies.
struct LocalCopy {
  Rank rank;
  Box box;
};

struct Resharding {
  std::vector<LocalCopy> copies;
  std::vector<Step> steps;      // a rank takes part in its steps in this order
  double makespan_seconds = 0;  // by the model: steps that share a node follow each other
  double bound_seconds = 0;     // no plan takes less: the busiest node's bytes over its bandwidth
};

// Plans the moves of a tensor with elements of `element_bytes`. Both tilings are of one shape and
// pass CheckTiling. Ranks may be in both. Errors: InvalidArgument, when shapes differ, or a rank
// has no node.
absl::StatusOr<Resharding> PlanResharding(const Tiling& from, const Tiling& to,
                                          const Topology& topology, const LinkCost& link,
                                          int64_t element_bytes, const ReshardRules& rules);

// Proves that every rank of `to` gets every element of its tile exactly once, from a rank that has
// it by then. Errors: InvalidArgument, naming the step or the rank.
absl::Status CheckResharding(const Resharding& plan, const Tiling& from, const Tiling& to);

}  // namespace stretto
