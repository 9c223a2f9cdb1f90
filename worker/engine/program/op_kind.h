// SPDX-License-Identifier: Apache-2.0
#pragma once
// The operations a step program is made of. Each is one row of operations.inc: its operands and
// attributes by name, what it is to a schedule, which shapes it takes, what work it is and how it
// calls Ops. The enum and the table are made from the rows; the verifier, the printer and parser,
// the passes, the cost model and the executors read them.

#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/comm/collective/collective_kind.h"

namespace stretto {

// Compute first, then the collectives.
enum class OpKind : uint8_t {
#define STRETTO_OPERATION(kind, ...) kind,
#define STRETTO_COLLECTIVE(kind, ...) kind,
#include "worker/engine/program/operations.inc"
#undef STRETTO_COLLECTIVE
#undef STRETTO_OPERATION
};

// What an operation is to a schedule. kChain: others of its strand wait for it. kWeightGradient:
// only the optimizer needs it, so it may fill time under communication.
enum class Role : uint8_t { kChain, kWeightGradient, kCollective };

// Whether selective recomputation runs an operation again. kUngathered: only where no collective
// gathers its result, which would be kept.
enum class Recomputed : uint8_t { kNever, kUngathered, kAlways };

// What one operation asks of a machine.
struct Work {
  double flops = 0;  // of matrix products, attention's included: 2 per multiply-add
  double bytes = 0;  // of memory: every operand once, one that is read and written twice
};

class Ops;
class ShapeCheck;
struct Buffer;
struct TensorView;
template <class T>
class NamedOperands;
using BufferOperands = NamedOperands<const Buffer*>;
using ViewOperands = NamedOperands<TensorView>;

struct OpInfo {
  OpKind kind;
  const char* name;
  // Operands in order; '?' marks a trailing one that may be absent, '=' one that is read and
  // written and therefore stands in both lists.
  std::vector<const char*> inputs;
  std::vector<const char*> outputs;
  // Types and extents of the operands, in the language of shape_check.h.
  const char* shapes;
  // The kernel call on these operands, resolved once (operation_calls.h). None for a collective.
  std::function<std::function<void()>(const ViewOperands&, Ops*)> call;
  // Integers. "wire" is the DType that travels. '~' marks a real number of at least 0, kept as
  // RealAttribute has it; "~epsilon" is kNormEpsilon where it is 0, "scaling" a
  // RotaryScaling::Kind.
  std::vector<const char*> attributes = {};
  Role role = Role::kChain;
  Recomputed recomputed = Recomputed::kNever;
  // The operand that an output may lie on without being it, from the same address on.
  const char* overwrites = "";
  // What `shapes` cannot say; runs before it and may define symbols for it.
  absl::Status (*check)(ShapeCheck&) = nullptr;
  // Completes the work of an operation that moves each operand once, which `work` holds.
  void (*work)(const BufferOperands&, Work* work) = nullptr;
  // Of a collective.
  CollectiveKind collective = CollectiveKind::kBarrier;
  ReduceOp reduction = ReduceOp::kSum;
};

const OpInfo& InfoOf(OpKind kind);
// Null when there is no such operation.
const OpInfo* FindOp(absl::string_view name);
const std::vector<OpInfo>& AllOps();

// The name of an operand in a row without its marks.
absl::string_view BareName(absl::string_view operand);

// A real number as an attribute: its bits; 0 is 0.
inline int64_t RealAttribute(double value) { return std::bit_cast<int64_t>(value); }
inline double RealOf(int64_t attribute) { return std::bit_cast<double>(attribute); }

inline bool IsCollective(OpKind kind) { return kind >= OpKind::kAllReduce; }

}  // namespace stretto
