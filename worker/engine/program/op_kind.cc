// SPDX-License-Identifier: Apache-2.0

// Builds the table of operations from the rows of operations.inc: the rows become the members of
// OpInfo, and collectives take name and operands from the table of collectives. InfoOf finds a row
// by its kind, because the rows are in the order of the enum.

#include "worker/engine/program/op_kind.h"

#include <utility>

#include "absl/strings/strip.h"
#include "proto/base/check.h"
#include "worker/engine/program/operation_calls.h"
#include "worker/engine/program/operation_rules.h"

namespace stretto {
namespace {

// Builds the row of a collective from that of its kind. A collective that works in place has one
// operand, which is read and written.
OpInfo Collectively(OpKind kind, CollectiveKind collective, std::vector<const char*> attributes,
                    ReduceOp reduction = ReduceOp::kSum, const char* name = nullptr) {
  const CollectiveInfo& info = InfoOf(collective);
  const char *in = info.in_place ? "=x" : "x", *out = info.in_place ? "=x" : "y";
  STRETTO_CHECK(info.on_device);
  return {.kind = kind,
          .name = name == nullptr ? info.name : name,
          .inputs = {in},
          .outputs = {out},
          .shapes = info.in_place   ? ""
                    : info.in_parts ? "x:T(n) y:T(part)"
                                    : "y:T(n) x:T(part)",
          .call = {},
          .attributes = std::move(attributes),
          .role = OperationRole::kCollective,
          .check = CheckCollective,
          .collective = collective,
          .reduction = reduction};
}

// Builds the row of an end of a transfer.
OpInfo Transferring(OpKind kind, const char* name, std::vector<const char*> inputs,
                    std::vector<const char*> outputs) {
  return {.kind = kind,
          .name = name,
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .shapes = "",
          .call = {},
          .attributes = {"wire"},
          .role = OperationRole::kCollective,
          .check = CheckCollective,
          .collective = CollectiveKind::kBroadcast};
}

}  // namespace

const std::vector<OpInfo>& AllOps() {
  using Names = std::vector<const char*>;
  const Names vocab = {"start", "size"};
  const Names drop = {"drop", "site", "first"};
  const Names attention = {"sequence",   "heads", "kv_heads", "head_dim",
                           "first_head", "drop",  "site",     "first"};
  const Names attention_grad = {"sequence", "heads", "kv_heads", "head_dim", "first_head",
                                "drop",     "site",  "first",    "library"};
  const auto epsilon = Real("~epsilon", kNormEpsilon);
  static const auto* table = new std::vector<OpInfo>{
#define STRETTO_OPERATION(op_kind, ...) {.kind = OpKind::op_kind, __VA_ARGS__},
#define STRETTO_COLLECTIVE(op_kind, ...) Collectively(OpKind::op_kind, __VA_ARGS__),
#define STRETTO_TRANSFER(op_kind, ...) Transferring(OpKind::op_kind, __VA_ARGS__),
#include "worker/engine/program/operations.inc"
#undef STRETTO_TRANSFER
#undef STRETTO_COLLECTIVE
#undef STRETTO_OPERATION
  };
  return *table;
}

const OpInfo& InfoOf(OpKind kind) { return AllOps()[static_cast<size_t>(kind)]; }

const OpInfo* FindOp(absl::string_view name) {
  for (const OpInfo& info : AllOps()) {
    if (name == info.name) return &info;
  }
  return nullptr;
}

absl::string_view BareName(absl::string_view operand) {
  absl::ConsumePrefix(&operand, "=");
  absl::ConsumeSuffix(&operand, "?");
  return operand;
}

}  // namespace stretto
