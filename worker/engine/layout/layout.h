// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a rank is in its job. A job has pp_size stages of the model, replicas of each stage, and as
// many ranks as the stage's TP size over which a replica of it is sharded:
//   rank = first rank of the stage + replica * TP size + position in the replica
// The ranks of a stage are adjacent, and so are those of a replica of it, so that placement can put
// them whole on a node.
//
// A micro-batch of the job has dp_size shares of micro_batch_size sequences, in the order of the
// step. Each of d replicas of a stage computes dp_size / d consecutive shares, as one micro-batch.

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/engine/program/program.h"
#include "worker/engine/spec/spec.h"

namespace stretto {

struct Place {
  int stage = 0;          // below pp_size: which layers of the model it holds
  int replica = 0;        // of the stage: which sequences of a step it computes
  GroupRank tp_rank = 0;  // below the stage's TP size: which shard of the layers it holds
};
// The ranks that share a replica of a stage.
int TpSizeOf(const EngineSpec& spec, int stage);
// The replicas of a stage, and the shares of a micro-batch that each of them computes.
int ReplicasOf(const EngineSpec& spec, int stage);
int SharesOf(const EngineSpec& spec, int stage);
// The sequences of a micro-batch of a replica of a stage, and those of each of its slices.
int SequencesOf(const EngineSpec& spec, int stage);
std::vector<int> SlicesOf(const EngineSpec& spec, int stage);
// Whether all stages have as many replicas; whether they also have the same TP size.
bool ReplicasAreEqual(const EngineSpec& spec);
bool MeshesAreEqual(const EngineSpec& spec);
// Whether the stages of the embeddings and of the head differ in replicas. The gradient of a tied
// embedding is then one sum over all replicas of both, instead of one over pairs and then one over
// replicas.
bool TiedEndsDiffer(const EngineSpec& spec);
Place PlaceOf(const EngineSpec& spec, Rank rank);
Rank RankAt(const EngineSpec& spec, const Place& place);

// A chunk has consecutive layers. The first one of the model also has the embeddings, and the last
// one the final norm, the head and the loss. Data flows through the chunks in order. Unless the
// spec has a number for each stage, the chunks share the layers evenly; if that is not possible,
// the first ones have one more.
struct Chunk {
  int number = 0;                      // in the model
  int first_layer = 0, end_layer = 0;  // [first, end)
  bool embeds = false;                 // has the embeddings
  bool predicts = false;               // has the head
};
// The chunks of the model, and the stage that has one: chunk c is on stage c modulo pp_size, but
// every second round goes back if the order folds (PipelineRules::folds). The last stage then has
// two neighbours, between which nothing is sent, and the first stage both ends of the model.
int ChunkCount(const EngineSpec& spec);
int StageOfChunk(const EngineSpec& spec, int chunk);
// The stage with the last chunk.
int HeadStageOf(const EngineSpec& spec);
// Returns the chunks_per_stage chunks of a stage, in the order of data flow.
std::vector<Chunk> ChunksOf(const EngineSpec& spec, int stage);

// The groups that a rank communicates in, in the order of their ids in its programs and, for time
// that waits for several, of their priority in the ledger. A group that the layout does not need is
// left out, except the first.
//   tp       the ranks that share a replica of a stage
//   pp       the ranks of all stages at the same place of a replica; all ranks of the replica if
//            the stages differ in TP size, and all of the job if they differ in replicas
//   pp.tied  a rank of the first stage and one of the stage of the head, if that is another, that
//            have rows of a tied embedding in common: those at the same place. Others are named by
//            their ranks, "pp.tied.1-6". If the two stages differ in replicas, those at these
//            places in all replicas
//   pp.0-1   ranks of stage 0 and stage 1 that a plan moves the residual stream between
//            (transfers.h); pp.1-0: back
//   pp.wrap.2-0  the same between chunks, of which the second is on a lower stage; pp.wrap.0-2:
//            back. The two stages may have other groups in the same direction.
//   dp       the ranks that hold the same shard of the same layers
inline constexpr GroupId kTpGroup = 0;
inline constexpr char kTpGroupName[] = "tp", kDpGroupName[] = "dp", kPpGroupName[] = "pp",
                      kTiedGroupName[] = "pp.tied";
// Of ranks at the same place in two stages. `wraps`: between two chunks of which the second is on
// the lower one.
std::string TransferGroupName(int from_stage, int to_stage, bool wraps = false);
IdVector<GroupId, Group> GroupsOf(const EngineSpec& spec, Rank rank);

// Returns the group of that name, -1 if there is none.
GroupId FindGroup(const IdVector<GroupId, Group>& groups, absl::string_view name);

}  // namespace stretto
