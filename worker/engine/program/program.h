// SPDX-License-Identifier: Apache-2.0
#pragma once
// The step program: what one rank does in one step (DESIGN section 4).
//
// A StepProgram is what passes work on: a table of units (operation templates) and the list of
// instances that a step runs. A Program is its flat expansion, one operation after another with
// absolute indices: what the verifier proves, executors run and people read (text.h).
//
// Order within a lane is program order. `waits` lists operations of other lanes that must have
// completed before this one starts. Plain values: copy freely, no threads, no hidden state.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/dtype.h"
#include "worker/engine/program/index.h"
#include "worker/engine/program/op_kind.h"

namespace stretto {

enum class Phase : uint8_t { kForward, kRecompute, kBackward, kOptimizer };
const char* NameOf(Phase phase);  // fwd, rec, bwd, opt

// What a buffer is for, and so which arena holds it. Only kActivation memory is reused within a
// step.
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

// A T of each class.
template <class T>
struct PerArena : std::array<T, kArenaClasses> {
  using std::array<T, kArenaClasses>::operator[];
  T& operator[](ArenaClass arena) { return (*this)[static_cast<size_t>(arena)]; }
  const T& operator[](ArenaClass arena) const { return (*this)[static_cast<size_t>(arena)]; }
};

// How many copies a buffer of a StepProgram has in a step.
enum class Binding : uint8_t {
  kStep,        // one
  kSlot,        // one per micro-batch in flight: micro-batch modulo slots
  kMicroBatch,  // one per micro-batch
};

struct Buffer {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  ArenaClass arena = ArenaClass::kActivation;
  Binding binding = Binding::kStep;
  // A view into another buffer with the same binding, starting at this element. -1: own memory.
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
  // In a program the number of the micro-batch; in a unit which of the instance's micro-batches.
  // -1: of none.
  int micro_batch = -1;
  int slice = -1;
  bool operator==(const Tag&) const = default;
};

struct Op {
  OpKind kind = OpKind::kZero;
  LaneId lane = 0;
  Tag tag;
  std::vector<BufferId> in, out;
  std::vector<int64_t> attributes;  // in the order of OpInfo::attributes, not negative
  std::vector<OpId> waits;          // ascending
};

// Ranks that communicate, and the lanes that work: at most one group per lane.
struct Group {
  std::string name;        // "tp"
  std::vector<int> ranks;  // of the job
};
struct Lane {
  std::string name;  // "compute", "comm.tp"
  GroupId group = -1;
};

struct Program {
  int rank = 0;
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

// A wait of one operation of an instance for one of an earlier instance.
struct CarriedWait {
  OpId op = 0;              // in this instance's unit
  InstanceId instance = 0;  // earlier
  OpId producer = 0;        // in that instance's unit
};

struct Instance {
  UnitId unit = 0;
  // What Tag::micro_batch of the unit's operations counts: a unit may weave several.
  std::vector<int> micro_batches;
  std::vector<CarriedWait> waits;
};

struct StepProgram {
  int rank = 0;
  int world_size = 1;
  int micro_batches = 1;
  int slots = 1;  // micro-batches in flight
  IdVector<GroupId, Group> groups;
  IdVector<LaneId, Lane> lanes;
  IdVector<BufferId, Buffer> buffers;
  IdVector<UnitId, Unit> units;
  IdVector<InstanceId, Instance> instances;
};

// Index of the copy of buffer `id` that a micro-batch uses, in the expansion's buffer list.
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

// The flat list. CHECKs that indices are in range.
Program Expand(const StepProgram& step);

// The memory a buffer lies in, through any chain of aliases, and its first element there.
struct Root {
  BufferId buffer;
  int64_t element;
};
Root RootOf(const IdVector<BufferId, Buffer>& buffers, BufferId id);

}  // namespace stretto
