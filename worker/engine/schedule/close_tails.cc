// SPDX-License-Identifier: Apache-2.0

// Overlaps the end of a micro-batch with the start of the next one, and the end of the last one
// with the optimizer. A micro-batch is cut into three parts: the head (the embedding and its
// collectives), the rest, and the tail (what follows the launch of the last collective of a layer:
// the weight gradients that are left and the gradient of the embedding). The units become
//
//   first    head(0) rest(0)
//   next     head(k) tail(k-1) rest(k)
//   finish   tail(last) and the optimizer; the part of the optimizer that does not depend on the
//            last collective, or on one of its own, runs before the operations that wait for it
//
// If a unit has several micro-batches (merge_wgrads.cc), those within it meet in the same way as
// head(k) and tail(k-1).
//
//   compute | ... w(ATT) | embed(k) | tail(k-1) | ATT0(k) ...  | tail(last) | norm parts, updates
//   comm.tp | ATT'(k-1)  .......... | embed(k)  | ...          | ATT'(last) ...
//
// The part of the optimizer that may run early computes the norm parts of gradients that are final
// and, with EngineSpec::update_at_once, the updates by those gradients. With several replicas it is
// the sums of gradients that are final, and nothing that waits for them. Otherwise every update
// waits for the whole norm, because a norm that is not finite must skip all updates on every rank
// (DESIGN section 5).

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "worker/engine/schedule/dependencies.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

using OpList = IdVector<OpId, Op>;

// The operations, bound to another of the instance's micro-batches.
OpList OfRole(OpList ops, int role) {
  for (Op& op : ops) op.tag.micro_batch = role;
  return ops;
}

void Append(OpList* to, const OpList& more) { to->insert(to->end(), more.begin(), more.end()); }

// The three parts of a micro-batch, in their order; see the top of this file.
struct Parts {
  OpList head, rest, tail;
};

// The rest ends with the last collective of a layer, so everything in the tail can run under that
// collective. Without such a collective `rest` is empty.
Parts PartsOf(const OpList& ops) {
  const auto last = std::find_if(ops.rbegin(), ops.rend(), [](const Op& op) {
                      return IsCollective(op.kind) && op.tag.layer >= 0;
                    }).base();
  const auto body = std::find_if(ops.begin(), last, [](const Op& op) {
    return op.tag.name != "embed" || op.tag.phase != Phase::kForward;
  });
  return {OpList(ops.begin(), body), OpList(body, last), OpList(last, ops.end())};
}

// The root buffers that the operations write.
std::set<BufferId> WrittenBy(const StepProgram& step, const OpList& ops) {
  std::set<BufferId> roots;
  for (const Op& op : ops) {
    for (BufferId id : op.out) roots.insert(RootOf(step.buffers, id).buffer);
  }
  return roots;
}

// The last unit: `ready`, then the operations of `optimizer` that depend neither on `pending` nor
// on a collective of `optimizer`, then `pending`, then the other operations of `optimizer`. Both
// parts of `optimizer` keep their order. Collectives that are ready thus start early, such as sums
// over replicas, and no computation of `pending` stands behind one that waits for them.
OpList Finish(const StepProgram& step, const OpList& ready, const OpList& pending,
              const OpList& optimizer) {
  OpList ops = pending;
  Append(&ops, optimizer);
  const auto dependencies = DependenciesOf(ops, step.buffers);
  IdVector<OpId, bool> waits(ops.size());
  // waits[i]: operation i depends on those, directly or through other operations. One pass
  // suffices, because dependencies point backwards.
  std::fill_n(waits.begin(), pending.size(), true);
  OpList early, late;
  for (OpId i = pending.next(); i < ops.next(); ++i) {
    const std::vector<OpId>& behind = dependencies[i];
    waits[i] = std::any_of(behind.begin(), behind.end(), [&](OpId op) {
      return waits[op] || (op >= pending.next() && IsCollective(ops[op].kind));
    });
    (waits[i] ? late : early).push_back(ops[i]);
  }
  OpList finish = ready;
  Append(&finish, early);
  Append(&finish, pending);
  Append(&finish, late);
  return finish;
}

// Gives two slots to the activations in `roots`: head(k) writes them while tail(k-1) still reads
// those of its own micro-batch. rest(k) starts after tail(k-1), so all others need one.
void KeepCopiesOf(const std::set<BufferId>& roots, StepProgram* step) {
  for (BufferId id : step->buffers.ids()) {
    Buffer& buffer = step->buffers[id];
    if (buffer.arena != ArenaClass::kActivation) continue;
    if (!roots.contains(RootOf(step->buffers, id).buffer)) continue;
    buffer.slots = std::min(2, step->micro_batches);
  }
}

}  // namespace

absl::Status CloseTails(const EngineSpec&, StepProgram* step) {
  std::vector<OpList> roles;
  for (const Op& op : step->units[FindUnit(*step, kMicroBatchUnit)].ops) {
    if (op.tag.micro_batch >= std::ssize(roles)) roles.emplace_back();
    roles.back().push_back(op);
  }
  const OpList optimizer = step->units[FindUnit(*step, kOptimizerUnit)].ops;
  std::vector<Parts> parts;
  for (const OpList& ops : roles) parts.push_back(PartsOf(ops));
  if (parts[0].rest.empty())
    return absl::OkStatus();  // one rank in a replica: nothing to overlap with

  OpList within = parts[0].rest;
  for (size_t role = 1; role < parts.size(); ++role) {
    Append(&within, parts[role].head);
    Append(&within, parts[role - 1].tail);
    Append(&within, parts[role].rest);
  }
  const int count = std::ssize(parts);
  // A tail starts with weight gradients, which do not need the last collective. The first operation
  // of another role in the lowest layer or outside the layers is the first that does.
  const OpList tail = OfRole(parts.back().tail, 0);
  const auto waits = std::find_if(tail.begin(), tail.end(), [](const Op& op) {
    return op.tag.layer <= 0 && InfoOf(op.kind).role != OperationRole::kWeightGradient;
  });
  OpList next = parts[0].head;
  // Roles 0 to count - 1 are the instance's own micro-batches, and role `count` is the one before
  // them, whose tail runs here.
  Append(&next, OfRole(tail, count));
  Append(&next, within);
  OpList first = parts[0].head;
  Append(&first, within);
  KeepCopiesOf(WrittenBy(*step, parts[0].head), step);
  step->units = {
      step->units[0],
      {"first", std::move(first)},
      {"next", std::move(next)},
      {"finish", Finish(*step, OpList(tail.begin(), waits), OpList(waits, tail.end()), optimizer)}};
  step->instances = {{.unit = 0, .micro_batches = {}, .waits = {}}};
  for (int mb = 0; mb < step->micro_batches; mb += count) {
    step->instances.push_back(
        {.unit = mb == 0 ? UnitId(1) : UnitId(2), .micro_batches = {}, .waits = {}});
    std::vector<int>& bound = step->instances.back().micro_batches;
    for (int role = 0; role < count; ++role) bound.push_back(mb + role);
    if (mb > 0) bound.push_back(mb - 1);
  }
  step->repeat = {.begin = 2, .end = step->instances.next(), .stride = count};
  step->instances.push_back({.unit = 3, .micro_batches = {step->micro_batches - 1}, .waits = {}});
  return absl::OkStatus();
}

}  // namespace stretto
