// SPDX-License-Identifier: Apache-2.0
#pragma once
// Access to the attributes and operands of one operation by the names of its row (op_kind.h).

#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "kernels/tensor_view.h"
#include "proto/base/check.h"
#include "worker/engine/program/program.h"

namespace stretto {

class Attributes {
 public:
  explicit Attributes(const Op& op) : names_(InfoOf(op.kind).attributes), values_(op.attributes) {}

  // CHECKs that the row has the attribute; the '~' of a real number is part of its name.
  int64_t operator[](absl::string_view name) const {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return values_.at(i);
    }
    STRETTO_CHECK(false && "an attribute that the row does not have");
    return 0;
  }
  double Real(absl::string_view name) const { return RealOf((*this)[name]); }
  bool Has(absl::string_view name) const {
    for (const char* known : names_) {
      if (known == name) return true;
    }
    return false;
  }

 private:
  const std::vector<const char*>& names_;
  const std::vector<int64_t>& values_;
};

// The values of an operation's operands, by name. Borrows the operation.
template <class T>
class NamedOperands {
 public:
  // `in` and `out` hold one value for each operand of the operation, in order.
  NamedOperands(const Op& op, std::vector<T> in, std::vector<T> out)
      : info_(InfoOf(op.kind)), attributes_(op), in_(std::move(in)), out_(std::move(out)) {
    STRETTO_CHECK(in_.size() <= info_.inputs.size() && out_.size() <= info_.outputs.size());
  }

  // Returns null when the operand is absent.
  const T* Find(absl::string_view name) const {
    if (const T* found = FindIn(info_.inputs, in_, name)) return found;
    return FindIn(info_.outputs, out_, name);
  }
  // CHECKs that the operand is present.
  const T& operator[](absl::string_view name) const {
    const T* found = Find(name);
    STRETTO_CHECK(found != nullptr);
    return *found;
  }
  const OpInfo& info() const { return info_; }
  const Attributes& attributes() const { return attributes_; }

 private:
  static const T* FindIn(const std::vector<const char*>& names, const std::vector<T>& values,
                         absl::string_view name) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (BareName(names[i]) == name) return &values[i];
    }
    return nullptr;
  }

  const OpInfo& info_;
  const Attributes attributes_;
  const std::vector<T> in_, out_;
};

BufferOperands OperandsOf(const Program& program, const Op& op);

}  // namespace stretto
