// SPDX-License-Identifier: Apache-2.0

// A case is a program of one operation, or of a pair that devices run as one, with buffers of its
// own in place of those of the step. Operations of equal kind and shapes are one case.

#include "worker/bench/kernels/cases.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/ops.h"
#include "worker/engine/cost/table.h"
#include "worker/engine/exec/bind.h"

namespace stretto::bench {
namespace {

// Whether the executor of a device makes one call of them.
bool AreOneCall(const Op& first, const Op& second) {
  return first.lane == second.lane && first.tag.micro_batch == second.tag.micro_batch &&
         ArePair(first, second);
}

bool Has(const BufferList& list, BufferId id) {
  return std::find(list.begin(), list.end(), id) != list.end();
}

KernelCase CaseOf(const Program& program, std::vector<Op> ops) {
  KernelCase result;
  result.place = TagKey(ops[0]);
  const Op first = ops[0];
  std::map<BufferId, BufferId> copies;
  const auto take = [&](BufferId& id) {
    const auto [found, added] = copies.try_emplace(id, result.buffers.next());
    if (added) {
      const Buffer& source = program.buffers[id];
      result.buffers.push_back({.name = source.name,
                                .dtype = source.dtype,
                                .shape = source.shape,
                                .arena = ArenaClass::kParameter});
    }
    id = found->second;
  };
  for (Op& op : ops) {
    absl::StrAppend(&result.operation, result.operation.empty() ? "" : " + ",
                    OperationKey(program, op));
    const Work work = WorkOf(program, op);
    result.work.flops += work.flops;
    result.work.bytes += work.bytes;
    for (BufferId id : op.in) {  // what the first has read or written stays in registers
      if (&op != &ops[0] && (Has(first.in, id) || Has(first.out, id)))
        result.work.bytes -= static_cast<double>(program.buffers[id].bytes());
    }
    for (BufferId& id : op.in) take(id);
    for (BufferId& id : op.out) take(id);
    op.lane = 0;
    op.tag.micro_batch = -1;
    op.waits.clear();
  }
  result.ops = std::move(ops);
  return result;
}

KernelCase Alone(OpKind kind, const char* name, DType dtype, int64_t n, int inputs,
                 std::vector<int64_t> attributes, bool keys) {
  Program program;
  Op op;
  op.kind = kind;
  op.tag.name = name;
  op.attributes = std::move(attributes);
  const auto add = [&](DType type, std::vector<int64_t> shape) {
    return program.buffers.Add({.name = name, .dtype = type, .shape = std::move(shape)});
  };
  for (int i = 0; i < inputs; ++i) op.in.push_back(add(dtype, {n, n}));
  if (keys) op.in.push_back(add(DType::kI32, {kKeyCount}));
  op.out.push_back(add(dtype, {n, n}));
  KernelCase result = CaseOf(program, {op});
  result.place = name;
  return result;
}

}  // namespace

bool IsOfOptimizer(const KernelCase& timed) { return timed.ops[0].tag.phase == Phase::kOptimizer; }

std::vector<KernelCase> CasesOf(const Program& program) {
  std::vector<KernelCase> cases;
  std::map<std::string, size_t> at;
  for (OpId i = 0; i < program.ops.next(); ++i) {
    if (IsCollective(program.ops[i].kind)) continue;
    std::vector<Op> ops = {program.ops[i]};
    if (program.ops.Has(i + 1) && AreOneCall(ops[0], program.ops[i + 1])) {
      ops.push_back(program.ops[++i]);
    }
    KernelCase next = CaseOf(program, std::move(ops));
    const auto [found, added] = at.try_emplace(next.operation, cases.size());
    if (added) cases.push_back(std::move(next));
    ++cases[found->second].count;
  }
  return cases;
}

std::vector<KernelCase> OperationsOf(const Program& program) {
  std::map<std::string, KernelCase> cases;
  std::map<std::string, std::set<std::vector<BufferId>>> weights;
  for (const Op& op : program.ops) {
    if (IsCollective(op.kind)) continue;
    KernelCase next = CaseOf(program, {op});
    std::vector<BufferId> read;  // of the program
    for (size_t i = 0; i < op.in.size(); ++i) {
      if (program.buffers[op.in[i]].arena != ArenaClass::kParameter) continue;
      read.push_back(op.in[i]);
      next.weights.push_back(next.ops[0].in[i]);
    }
    weights[next.operation].insert(std::move(read));
    const std::string key = next.operation;
    ++cases.try_emplace(key, std::move(next)).first->second.count;
  }
  std::vector<KernelCase> result;
  for (auto& [key, found] : cases) {
    found.uses = std::max(1, found.count / static_cast<int>(weights[key].size()));
    result.push_back(std::move(found));
  }
  return result;
}

KernelCase CopyCase(DType dtype, int64_t n) {
  KernelCase copy = Alone(OpKind::kDropout, "copy", dtype, n, 1, {0, 0, 0}, true);
  copy.work.bytes = 2 * static_cast<double>(copy.buffers[0].bytes());
  return copy;
}

KernelCase ProductCase(DType dtype, int64_t n) {
  return Alone(OpKind::kGemm, "product", dtype, n, 2, {}, false);
}

}  // namespace stretto::bench
