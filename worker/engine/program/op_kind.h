// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kinds of operations of a step program. Each is one row of operations.inc: its operands and
// attributes by name, its role in a schedule, its shape rule, its work and its call of Ops. The
// enum and the table are generated from the rows; the verifier, the printer and parser, the passes,
// the cost model and the executors read them.

#include <bit>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "worker/comm/collective/collective_kind.h"

namespace stretto {

// Compute operations come first, then collectives, then transfers, which are collectives too.
enum class OpKind : uint8_t {
#define STRETTO_OPERATION(kind, ...) kind,
#define STRETTO_COLLECTIVE(kind, ...) kind,
#define STRETTO_TRANSFER(kind, ...) kind,
#include "worker/engine/program/operations.inc"
#undef STRETTO_TRANSFER
#undef STRETTO_COLLECTIVE
#undef STRETTO_OPERATION
};

// The role of an operation in a schedule. kChain: other operations of its strand wait for it.
// kWeightGradient: only the optimizer needs it, so it may fill time under communication.
enum class OperationRole : uint8_t { kChain, kWeightGradient, kCollective };

// Whether selective recomputation repeats an operation. kUngathered: only when no collective
// gathers its result, because a gathered result is kept.
enum class Recomputed : uint8_t { kNever, kUngathered, kAlways };

// The work of one operation.
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
  // Operands in order. '?' marks a trailing operand that may be absent; '=' marks one that is read
  // and written and is therefore in both lists.
  std::vector<const char*> inputs;
  std::vector<const char*> outputs;
  // Types and extents of the operands, in the notation of shape_check.h.
  const char* shapes;
  // Resolves the kernel call on these operands, once (operation_calls.h). Empty for a collective.
  std::function<std::function<void()>(const ViewOperands&, Ops*)> call;
  // Names of integer attributes. "wire" is the DType on the wire. '~' marks a non-negative real
  // number, encoded by RealAttribute; "~epsilon" 0 means kNormEpsilon. "scaling" is a
  // RotaryScaling::Kind.
  std::vector<const char*> attributes = {};
  OperationRole role = OperationRole::kChain;
  Recomputed recomputed = Recomputed::kNever;
  // The input whose memory an output may reuse, from the same address, without being the same
  // buffer.
  const char* overwrites = "";
  // Checks what `shapes` cannot express. It runs before `shapes` is matched and may define symbols.
  absl::Status (*check)(ShapeCheck&) = nullptr;
  // Adjusts `work`, which holds the bytes of an operation that moves each operand once.
  void (*work)(const BufferOperands&, Work* work) = nullptr;
  // For collectives only.
  CollectiveKind collective = CollectiveKind::kBarrier;
  ReduceOp reduction = ReduceOp::kSum;
};

const OpInfo& InfoOf(OpKind kind);
// Returns null when there is no such operation.
const OpInfo* FindOp(absl::string_view name);
const std::vector<OpInfo>& AllOps();

// Returns the name of a row's operand without its marks.
absl::string_view BareName(absl::string_view operand);

// Encodes a real number as an attribute, by its bits; 0 is encoded as 0.
inline int64_t RealAttribute(double value) { return std::bit_cast<int64_t>(value); }
inline double RealOf(int64_t attribute) { return std::bit_cast<double>(attribute); }

inline bool IsCollective(OpKind kind) { return kind >= OpKind::kAllReduce; }
// Whether the operation is one end of a transfer between stages.
inline bool IsTransfer(OpKind kind) { return kind >= OpKind::kSend; }

}  // namespace stretto
