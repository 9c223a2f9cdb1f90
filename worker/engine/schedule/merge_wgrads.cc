// SPDX-License-Identifier: Apache-2.0

// Merges the weight gradient products of all slices of g micro-batches into one. The sums are
// longer, and the main gradient, which is f32, is read and written once instead of once per slice
// and micro-batch. Forward and backward of a micro-batch keep their order. The unit holds g
// micro-batches, and each operand of a merged product is one buffer, which the micro-batches write
// through views:
//
//   unit      f(0) b(0) f(1) b(1) ... f(g-1) b(g-1)        roles 0 to g-1, in (role, slice) order
//   whole     | (0, s0) | (0, s1) | (1, s0) | ... | (g-1, s1) |      rows of x; of dy the same
//   product   ........................................ w += dy^T x, where the last one stood

#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

constexpr size_t kOperands[] = {0, 1};  // dy, x

class Merge {
 public:
  Merge(int roles, StepProgram* step) : step_(step), ids_(roles) {}

  IdVector<OpId, Op> Run(const IdVector<OpId, Op>& ops) {
    std::map<std::pair<BufferId, std::string>, std::vector<OpId>> products;  // by gradient and tag
    for (OpId op : ops.ids()) {
      if (ops[op].kind == OpKind::kGemmWgrad)
        products[{ops[op].out[0], ops[op].tag.name}].push_back(op);
    }
    std::map<OpId, bool> last;  // of each product's operations, whether it is
    for (const auto& [key, parts] : products) {
      for (size_t operand : kOperands) Adjoin(ops, parts, operand);
      for (OpId part : parts) last[part] = part == parts.back();
    }
    IdVector<OpId, Op> merged;
    for (int role = 0; role < roles(); ++role) {
      for (OpId op : ops.ids()) {
        const auto product = last.find(op);
        if (product == last.end()) {
          merged.push_back(OfRole(ops[op], role));
        } else if (product->second && role == roles() - 1) {
          merged.push_back(OfAll(ops[op]));
        }
      }
    }
    return merged;
  }

 private:
  int roles() const { return std::ssize(ids_); }
  Buffer& At(BufferId id) { return step_->buffers[id]; }

  // Makes one buffer of an operand of all parts of a product, over all roles. The buffer takes the
  // id of the first part's, because a view must be declared after the buffer that it views.
  void Adjoin(const IdVector<OpId, Op>& ops, const std::vector<OpId>& parts, size_t operand) {
    std::vector<Buffer> rows;
    int64_t count = 0;
    const BufferId whole = ops[parts[0]].in[operand];
    for (OpId part : parts) {
      const Buffer& buffer = At(ops[part].in[operand]);
      STRETTO_CHECK(buffer.alias < 0 && buffer.shape.size() == 2);
      rows.push_back(buffer);
      count += buffer.shape[0];
    }
    const Tag& tag = ops[parts[0]].tag;
    At(whole).name = absl::StrCat(tag.layer < 0 ? "" : absl::StrCat("L", tag.layer, "."), tag.name,
                                  operand == 0 ? ".dy" : ".x");
    At(whole).shape[0] = count * roles();
    int64_t offset = 0;
    for (int role = 0; role < roles(); ++role) {
      for (size_t part = 0; part < parts.size(); ++part) {
        Buffer view = rows[part];
        view.alias = whole;
        view.alias_offset = offset;
        if (role > 0) absl::StrAppend(&view.name, ".r", role);
        // Rows are in (role, slice) order, so the product adds contributions in that order.
        offset += view.count();
        const BufferId id = ops[parts[part]].in[operand];
        const bool first = ids_[role].emplace(id, Place(id, view)).second;
        STRETTO_CHECK(first);  // an operand of one product
      }
    }
    for (OpId part : parts) whole_[ops[part].in[operand]] = whole;
  }
  // Declares a view under the id of the buffer that it replaces, or under a new id when that one is
  // the whole buffer or already a view (roles after the first).
  BufferId Place(BufferId id, Buffer view) {
    if (view.alias != id && At(id).alias < 0) {
      At(id) = std::move(view);
      return id;
    }
    return step_->buffers.Add(std::move(view));
  }

  Op OfRole(Op op, int role) const {
    const std::map<BufferId, BufferId>& ids = ids_[role];
    for (BufferList* list : {&op.in, &op.out}) {
      for (BufferId& id : *list) {
        if (const auto it = ids.find(id); it != ids.end()) id = it->second;
      }
    }
    op.tag.micro_batch = role;
    return op;
  }

  Op OfAll(Op op) const {
    op.tag.micro_batch = roles() - 1;
    for (size_t operand : kOperands) op.in[operand] = whole_.at(op.in[operand]);
    return op;
  }

  StepProgram* const step_;
  std::vector<std::map<BufferId, BufferId>> ids_;  // by role: buffer -> its view
  std::map<BufferId, BufferId> whole_;
};

// Joins the instances of `unit` so that each has `roles` micro-batches; before, each has one.
IdVector<InstanceId, Instance> Together(const IdVector<InstanceId, Instance>& instances,
                                        UnitId unit, int roles) {
  IdVector<InstanceId, Instance> together;
  for (const Instance& instance : instances) {
    const bool joins = instance.unit == unit && together.back().unit == unit &&
                       std::ssize(together.back().micro_batches) < roles;
    if (joins) {
      together.back().micro_batches.push_back(instance.micro_batches[0]);
    } else {
      together.push_back(instance);
    }
  }
  return together;
}

}  // namespace

absl::Status MergeWgrads(const EngineSpec& spec, StepProgram* step) {
  const int roles = spec.schedule.merge_wgrads;
  if (roles * std::ssize(spec.schedule.slices) <= 1) return absl::OkStatus();
  STRETTO_CHECK(step->micro_batches % roles == 0);
  const UnitId unit = FindUnit(*step, kMicroBatchUnit);
  const IdVector<OpId, Op> ops = std::move(step->units[unit].ops);
  step->units[unit].ops = Merge(roles, step).Run(ops);
  step->instances = Together(step->instances, unit, roles);
  step->repeat.end = step->repeat.begin + step->micro_batches / roles;
  step->repeat.stride = roles;
  return absl::OkStatus();
}

}  // namespace stretto
