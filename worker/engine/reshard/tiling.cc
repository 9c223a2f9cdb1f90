// SPDX-License-Identifier: Apache-2.0

// A tiling of a mesh cuts the box of each rank, axis after axis, and collects the ranks whose boxes
// are the same. The check adds up volumes: tiles that are inside, disjoint and as large as the
// whole cover it.

#include "worker/engine/reshard/tiling.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace stretto {
namespace {

int64_t Product(const std::vector<int64_t>& extents) {
  return std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
}

absl::Status CheckSplits(const Mesh& mesh, const std::vector<int64_t>& shape,
                         const std::vector<std::vector<int>>& splits) {
  if (splits.size() != shape.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("splits: found ", splits.size(), " dimensions, expected ", shape.size()));
  }
  std::set<int> used;
  for (size_t d = 0; d < splits.size(); ++d) {
    int64_t parts = 1;
    for (int axis : splits[d]) {
      if (axis < 0 || axis >= std::ssize(mesh.extents) || !used.insert(axis).second) {
        return absl::InvalidArgumentError(absl::StrCat("splits of dimension ", d, ": found axis ",
                                                       axis, ", expected each of the mesh's ",
                                                       mesh.extents.size(), " axes once"));
      }
      parts *= mesh.extents[axis];
    }
    if (shape[d] % parts == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("dimension ", d, ": found ", shape[d],
                                                   ", expected a multiple of ", parts, " parts"));
  }
  return absl::OkStatus();
}

}  // namespace

int Mesh::size() const {
  return std::accumulate(extents.begin(), extents.end(), 1, std::multiplies<>());
}

int64_t VolumeOf(const Box& box) { return Product(box.extents); }

Box PartOf(const Box& box, int cut, int part, int parts) {
  Box of = box;
  of.extents.at(cut) /= parts;
  of.starts.at(cut) += part * of.extents[cut];
  return of;
}

std::string PrintBox(const Box& box) {
  return absl::StrCat("[", absl::StrJoin(box.starts, ","), " ", absl::StrJoin(box.extents, "x"),
                      "]");
}

absl::StatusOr<Tiling> TilingOf(const Mesh& mesh, const std::vector<int64_t>& shape,
                                const std::vector<std::vector<int>>& splits) {
  RETURN_IF_ERROR(CheckSplits(mesh, shape, splits));
  std::map<std::vector<int64_t>, Tile> tiles;  // by starts
  for (int position = 0; position < mesh.size(); ++position) {
    std::vector<int> at(mesh.extents.size());  // coordinates of the rank
    for (int axis = std::ssize(mesh.extents) - 1, rest = position; axis >= 0; --axis) {
      at[axis] = rest % mesh.extents[axis];
      rest /= mesh.extents[axis];
    }
    Box box{std::vector<int64_t>(shape.size()), shape};
    for (size_t d = 0; d < shape.size(); ++d) {
      for (int axis : splits[d]) {
        box.extents[d] /= mesh.extents[axis];
        box.starts[d] += at[axis] * box.extents[d];
      }
    }
    Tile& tile = tiles[box.starts];
    tile.box = std::move(box);
    tile.ranks.push_back(mesh.first + position);
  }
  Tiling tiling{.shape = shape, .tiles = {}};
  for (auto& [starts, tile] : tiles) tiling.tiles.push_back(std::move(tile));
  return tiling;
}

absl::Status CheckTiling(const Tiling& tiling) {
  const Box whole{std::vector<int64_t>(tiling.shape.size()), tiling.shape};
  const auto error = [](const Box& box, const auto&... words) {
    return absl::InvalidArgumentError(absl::StrCat("tile ", PrintBox(box), ": ", words...));
  };
  int64_t covered = 0;
  std::set<Rank> holders;
  Box common;
  for (const Tile& tile : tiling.tiles) {
    if (tile.box.starts.size() != tiling.shape.size() ||
        tile.box.extents.size() != tiling.shape.size() || !Intersect(tile.box, whole, &common) ||
        VolumeOf(common) != VolumeOf(tile.box)) {
      return error(tile.box, "expected a box inside ", PrintBox(whole));
    }
    if (tile.ranks.empty()) return error(tile.box, "found no holder, expected at least one");
    for (Rank rank : tile.ranks) {
      if (!holders.insert(rank).second) {
        return error(tile.box, "found rank ", rank.value(), ", which holds another tile");
      }
    }
    for (const Tile& other : tiling.tiles) {
      if (&other == &tile) break;
      if (Intersect(tile.box, other.box, &common)) {
        return error(tile.box, "found an overlap with tile ", PrintBox(other.box));
      }
    }
    covered += VolumeOf(tile.box);
  }
  if (covered == VolumeOf(whole)) return absl::OkStatus();
  return error(whole, "found ", covered, " elements in tiles, expected ", VolumeOf(whole));
}

}  // namespace stretto
