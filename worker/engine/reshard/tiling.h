// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a tensor is spread over ranks: boxes of it, and the ranks that hold each. (Zhuang et al.
// 2023, section 2; Alpa's sharding specs.)

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/base/box.h"
#include "worker/engine/program/program.h"

namespace stretto {

struct Tile {
  Box box;
  std::vector<Rank> ranks;  // that hold it, ascending; not empty
};

// Tiles are disjoint and cover the tensor. A rank holds one tile.
struct Tiling {
  std::vector<int64_t> shape;
  std::vector<Tile> tiles;
};

// Ranks in row-major order, from `first` on. Axis 0 is usually the nodes.
struct Mesh {
  std::vector<int> extents;
  Rank first = 0;
  int size() const;
};

// Spreads a tensor over a mesh. splits[d] lists the mesh axes that cut dimension d, the outermost
// first; axes that cut no dimension hold replicas. Errors: InvalidArgument, when an axis is not of
// the mesh or is used twice, or a dimension is not a multiple of its parts.
absl::StatusOr<Tiling> TilingOf(const Mesh& mesh, const std::vector<int64_t>& shape,
                                const std::vector<std::vector<int>>& splits);

// Errors: InvalidArgument, naming the tile: a tile is outside the shape or has no holder, two tiles
// overlap, some elements are in none, or a rank holds two tiles.
absl::Status CheckTiling(const Tiling& tiling);

// "[0,4 8x16]": starts, then extents.
std::string PrintBox(const Box& box);
int64_t VolumeOf(const Box& box);
// Returns part `part` of `parts` equal parts of a box along dimension `cut`, which they divide.
Box PartOf(const Box& box, int cut, int part, int parts);

}  // namespace stretto
