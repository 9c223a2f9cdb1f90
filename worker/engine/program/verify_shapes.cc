// SPDX-License-Identifier: Apache-2.0

// Compares one operation with its row: the numbers of operands and attributes, in-place operands,
// then the row's own check and shape rule. The first mismatch names the operation, what was found
// and what was expected.

#include "worker/engine/program/verify_shapes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/shape_check.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

// Compares an operation with the lists of its row.
class OperandLists {
 public:
  OperandLists(const Program& program, OpId index)
      : program_(program), index_(index), op_(program.ops.at(index)), info_(InfoOf(op_.kind)) {}

  absl::Status Check() const {
    RETURN_IF_ERROR(Counts(op_.in, info_.inputs, "inputs"));
    RETURN_IF_ERROR(Counts(op_.out, info_.outputs, "outputs"));
    if (op_.attributes.size() != info_.attributes.size()) {
      return Error(absl::StrCat(op_.attributes.size(), " attributes"),
                   absl::StrCat(info_.attributes.size()));
    }
    return InPlace();
  }

 private:
  absl::Status Error(absl::string_view found, absl::string_view expected) const {
    return absl::InvalidArgumentError(absl::StrCat("operation ", PrintOp(program_, index_),
                                                   ": found ", found, ", expected ", expected));
  }

  absl::Status Counts(const BufferList& ids, const std::vector<const char*>& names,
                      absl::string_view what) const {
    const size_t least = std::count_if(names.begin(), names.end(),
                                       [](absl::string_view name) { return name.back() != '?'; });
    for (BufferId id : ids) {
      if (!program_.buffers.Has(id))
        return Error(absl::StrCat("buffer %", id.value()), "a declared buffer");
    }
    if (ids.size() >= least && ids.size() <= names.size()) return absl::OkStatus();
    return Error(absl::StrCat(ids.size(), " ", what), absl::StrJoin(names, ", "));
  }

  absl::Status InPlace() const {
    for (size_t i = 0; i < info_.inputs.size(); ++i) {
      if (info_.inputs[i][0] != '=') continue;
      const absl::string_view name = BareName(info_.inputs[i]);
      for (size_t o = 0; o < info_.outputs.size(); ++o) {
        if (BareName(info_.outputs[o]) != name || op_.in[i] == op_.out[o]) continue;
        return Error(
            absl::StrCat("%", op_.in[i].value(), " and %", op_.out[o].value(), " as ", name),
            "one buffer, read and written");
      }
    }
    return absl::OkStatus();
  }

  const Program& program_;
  const OpId index_;
  const Op& op_;
  const OpInfo& info_;
};

}  // namespace

absl::Status VerifyOperands(const Program& program, OpId op) {
  RETURN_IF_ERROR(OperandLists(program, op).Check());
  const OpInfo& info = InfoOf(program.ops[op].kind);
  ShapeCheck shapes(program, op);
  if (info.check != nullptr) RETURN_IF_ERROR(info.check(shapes));
  return shapes.Match(info.shapes);
}

}  // namespace stretto
