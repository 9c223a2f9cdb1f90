// SPDX-License-Identifier: Apache-2.0
#pragma once
// Buckets: gradients that are adjacent in memory, so that one collective adds them up. With ZeRO,
// the weights have the same buckets, so that one collective spreads them after an update.
//
// A bucket is dealt to the replicas in parts of equal size, a range of elements each. A part may
// begin and end anywhere in a parameter. The parts of a bucket follow from the model and from the
// stage's replicas and TP size alone, not from stages or ZeRO, and the norm has a number for each
// of them. It has therefore the same bits with and without ZeRO and for any number of stages.

#include <cstdint>
#include <string>
#include <vector>

#include "proto/base/box.h"
#include "worker/engine/model/parameters.h"

namespace stretto {

// The bucket of parameters that every rank of a replica holds whole.
inline constexpr char kReplicatedBucket[] = "replicated";

struct Bucket {
  // "layers.3.attention", "layers.3.mlp", each with the norm in front of it; kReplicatedBucket, or
  // that of its only parameter
  std::string name;
  std::vector<size_t> parameters;  // indices in the list, which are adjacent in this order
  int64_t count = 0;               // elements, without padding
  int parts = 1;                   // the stage's replicas if it is dealt

  // Elements of a part. `parts` of them have room for all parameters, and padding behind them.
  int64_t part_count() const;
};

// What one part of a bucket has of a parameter: elements of its shard, at least one.
struct Piece {
  int part = 0;
  ElementRange range;
};

class Buckets {
 public:
  // Of a list of parameters that ParametersOf returned for the TP size of the stage.
  Buckets(const EngineSpec& spec, int stage, const std::vector<Parameter>& parameters);

  const std::vector<Bucket>& all() const { return buckets_; }  // by their first parameters
  // The bucket of a parameter, by number and itself, and the parameter's first element in it.
  size_t NumberOf(size_t parameter) const { return places_[parameter].bucket; }
  const Bucket& Of(size_t parameter) const { return buckets_[NumberOf(parameter)]; }
  int64_t FirstOf(size_t parameter) const { return places_[parameter].first; }
  // Returns the pieces of a parameter, ascending.
  std::vector<Piece> PiecesOf(size_t parameter) const;
  // Returns the elements of a parameter that a replica updates, none if its part has none.
  ElementRange UpdatedBy(int replica, size_t parameter) const;

 private:
  struct Place {
    size_t bucket = 0;
    int64_t first = 0, count = 0;
  };
  const bool shared_;  // whether each replica updates a part
  std::vector<Bucket> buckets_;
  std::vector<Place> places_;
};

// The ranks that hold the same values of the optimizer's state of a parameter.
struct Holders {
  ElementRange range;       // of the shard
  std::vector<Rank> ranks;  // ascending
};

// All holders of each parameter of the model, by Parameter::index. A rank is in at most one of a
// parameter. The ranges of sharded parameters are those of each rank's shard. A tied embedding has
// those of the first stage, and of the last one if that has the same shards and, with ZeRO, as many
// replicas.
using AllHolders = std::vector<std::vector<Holders>>;
AllHolders HoldersOf(const EngineSpec& spec);

}  // namespace stretto
