// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step program: the work of one rank in one step (DESIGN section 4).
//
// Passes work on a StepProgram: a table of units (operation templates) and the list of instances
// that a step runs. A Program is its flat expansion, a list of operations with absolute indices;
// the verifier proves it, executors run it, and text.h prints it.
//
// Operations of one lane run in program order. `waits` lists operations of other lanes that must
// complete before this one starts. All types are plain values: copy freely.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "kernels/dtype.h"
#include "worker/engine/program/index.h"
#include "worker/engine/program/op_kind.h"

namespace stretto {

enum class Phase : uint8_t { kForward, kRecompute, kBackward, kOptimizer };
const char* NameOf(Phase phase);  // fwd, rec, bwd, opt

// The purpose of a buffer, which selects the arena that holds it. Only kActivation memory is reused
// within a step.
enum class ArenaClass : uint8_t {
  kParameter,   // read by the step, written by the optimizer
  kGradient,    // f32
  kOptimizer,   // f32 master weights, moments
  kInput,       // written by the host before the step
  kOutput,      // read by the host after it
  kActivation,  // lives within a step
};
const char* NameOf(ArenaClass arena);
inline constexpr size_t kArenaClasses = 6;

// One T for each arena class.
template <class T>
struct PerArena : std::array<T, kArenaClasses> {
  using std::array<T, kArenaClasses>::operator[];
  T& operator[](ArenaClass arena) { return (*this)[static_cast<size_t>(arena)]; }
  const T& operator[](ArenaClass arena) const { return (*this)[static_cast<size_t>(arena)]; }
};

// Buffer::slots of a buffer that every micro-batch has a copy of.
inline constexpr int kPerMicroBatch = -1;

struct Buffer {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  ArenaClass arena = ArenaClass::kActivation;
  // The number of copies in a step. A micro-batch uses copy `its number modulo slots`, so the slots
  // of an activation bound how many micro-batches may be in flight between its write and last read.
  int slots = 1;
  // The buffer is a view into this one, which has as many slots, from element `alias_offset` on.
  // -1: the buffer has its own memory.
  BufferId alias = -1;
  int64_t alias_offset = 0;
  // Bytes from the start of its arena; -1 before memory is planned.
  int64_t offset = -1;

  int64_t count() const;
  int64_t bytes() const { return count() * static_cast<int64_t>(SizeOf(dtype)); }
};

struct Tag {
  int layer = -1;    // -1: outside the layers
  std::string name;  // "fc2", "attention", "head", or a parameter's name in the optimizer
  Phase phase = Phase::kForward;
  // In a program, the number of the micro-batch. In a unit, an index into the instance's
  // micro_batches. -1: the operation belongs to no micro-batch.
  int micro_batch = -1;
  int slice = -1;
  bool operator==(const Tag&) const = default;
};

// The operands and the waits of an operation. Most have at most four, which need no allocation: a
// step has hundreds of thousands of operations.
using BufferList = absl::InlinedVector<BufferId, 4>;
using WaitList = absl::InlinedVector<OpId, 4>;

struct Op {
  OpKind kind = OpKind::kZero;
  LaneId lane = 0;
  GroupId group = -1;  // whose ranks communicate; -1: the operation computes
  Tag tag;
  BufferList in, out;
  std::vector<int64_t> attributes;  // in the order of OpInfo::attributes, not negative
  WaitList waits;                   // ascending
  // Comes behind everything that is before it in its unit. HoldBarriers turns it into waits.
  bool barrier = false;
};

// A set of ranks that communicate over a channel of their own. All operations of a group are on one
// lane of each member, in the same order. Two lanes over the same ranks therefore need two groups.
struct Group {
  std::string name;  // "tp"; the members know the group by it
  IdVector<GroupRank, Rank> ranks;
  bool operator==(const Group&) const = default;
  // The axis of the layout that the group is of: the name up to a dot, "pp" of "pp.0-1".
  std::string axis() const { return name.substr(0, name.find('.')); }
};
// A queue of work.
struct Lane {
  std::string name;  // "compute", or LaneNameOf of the group that communicates on it
};
// "comm.tp".
std::string LaneNameOf(const Group& group);

struct Program {
  Rank rank = 0;
  int world_size = 1;
  IdVector<GroupId, Group> groups;
  IdVector<LaneId, Lane> lanes;
  IdVector<BufferId, Buffer> buffers;
  IdVector<OpId, Op> ops;
};

struct Unit {
  std::string name;
  IdVector<OpId, Op> ops;  // waits are indices into this list
};

// Makes one operation of an instance wait for an operation of an earlier instance.
struct CarriedWait {
  OpId op = 0;              // in this instance's unit
  InstanceId instance = 0;  // earlier
  OpId producer = 0;        // in that instance's unit
};

struct Instance {
  UnitId unit = 0;
  // Tag::micro_batch of the unit's operations is an index into this list. A unit may weave several.
  std::vector<int> micro_batches;
  std::vector<CarriedWait> waits;
};

// The instances [begin, end) of a step repeat: each is the one `period` before it, for
// micro-batches that are `stride` later.
struct Repeat {
  InstanceId begin = 0, end = 0;  // equal: nothing repeats
  int period = 1;
  int stride = 1;
  int count() const { return (end - begin) / period; }
};

struct StepProgram {
  Rank rank = 0;
  int world_size = 1;
  int micro_batches = 1;
  IdVector<GroupId, Group> groups;
  IdVector<LaneId, Lane> lanes;
  IdVector<BufferId, Buffer> buffers;
  IdVector<UnitId, Unit> units;
  IdVector<InstanceId, Instance> instances;
  Repeat repeat = {};  // declared by the pass that makes the list of instances (shortened.h)
};

// Maps a buffer of a step to the copy that a micro-batch uses, in the expansion's buffer list.
class BufferMap {
 public:
  explicit BufferMap(const StepProgram& step);
  BufferId Find(BufferId id, int micro_batch) const;
  size_t size() const { return size_; }

 private:
  const StepProgram& step_;
  IdVector<BufferId, BufferId> first_;
  size_t size_ = 0;
};

// Returns the flat list. CHECKs that indices are in range.
Program Expand(const StepProgram& step);

// The buffer that owns the memory of another, through any chain of aliases, and the element of it
// at which the other starts.
struct Root {
  BufferId buffer;
  int64_t element;
};
Root RootOf(const IdVector<BufferId, Buffer>& buffers, BufferId id);

}  // namespace stretto
