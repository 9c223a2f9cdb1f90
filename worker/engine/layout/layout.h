// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a rank is in its job. A job is a grid of pp_size stages of the model, dp_size replicas of
// each stage, and tp_size ranks over which a replica of a stage is sharded:
//   rank = (stage * dp_size + replica) * tp_size + position in the replica
// The ranks of a stage are adjacent, and so are those of a replica of it, so that placement can put
// them whole on a node.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/engine/program/program.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

struct Place {
  int stage = 0;          // below pp_size: which layers of the model it holds
  int replica = 0;        // below dp_size: which sequences of a step it computes
  GroupRank tp_rank = 0;  // below tp_size: which shard of the layers it holds
};
Place PlaceOf(const EngineSpec& spec, Rank rank);
Rank RankAt(const EngineSpec& spec, const Place& place);

// A chunk has consecutive layers. The first one of the model also has the embeddings, and the last
// one the final norm, the head and the loss. Data flows through the chunks in order, and chunk c is
// on stage c modulo pp_size, so two chunks of a stage are never neighbours. The chunks share the
// layers evenly; if that is not possible, the first ones have one more.
struct Chunk {
  int first_layer = 0, end_layer = 0;  // [first, end)
  bool embeds = false;                 // has the embeddings
  bool predicts = false;               // has the head
};
// Returns the chunks_per_stage chunks of a stage, in the order of data flow.
std::vector<Chunk> ChunksOf(const EngineSpec& spec, int stage);

// The groups that a rank communicates in, in the order of their ids in its programs and, for time
// that waits for several, of their priority in the ledger. A group that the layout does not need is
// left out, except the first.
//   tp       the ranks that share a replica of a stage
//   pp       the ranks of all stages at the same place of a replica
//   pp.tied  its first and last rank, if the head is the token embedding
//   pp.0-1   a rank of stage 0 and the same one of stage 1, to which it sends; pp.1-0: back
//   pp.wrap.2-0  with several chunks: the last stage and the first, to which it sends; pp.wrap.0-2:
//            back. With two stages, these two have other groups in the same direction.
//   dp       the ranks that hold the same shard of the same layers
inline constexpr GroupId kTpGroup = 0;
inline constexpr char kTpGroupName[] = "tp", kDpGroupName[] = "dp", kPpGroupName[] = "pp",
                      kTiedGroupName[] = "pp.tied";
// Of two neighbours in the order of data flow; one of the last stage and the first wraps around.
std::string TransferGroupName(int from_stage, int to_stage, bool wraps = false);
IdVector<GroupId, Group> GroupsOf(const EngineSpec& spec, Rank rank);

// Returns the group of that name, -1 if there is none.
GroupId FindGroup(const IdVector<GroupId, Group>& groups, absl::string_view name);

}  // namespace stretto
