// SPDX-License-Identifier: Apache-2.0

// Where micro-batches meet, and at the end of the step. A micro-batch ends with a tail: after its
// last collective is launched, weight gradients that are left and the gradient of the embedding.
// Units become
//
//   first    body(0)
//   next     head(k) tail(k-1) rest of body(k)      head: the embedding and its collectives
//   finish   tail(last) with what the optimizer can do already in front of what still waits
//
// A unit of several micro-batches (merge_wgrads.cc) closes those within it in the same way.
//
//   compute | ... w(ATT) | embed(k) | tail(k-1) | ATT0(k) ...  | tail(last) | norm parts, updates
//   comm.tp | ATT'(k-1)  .......... | embed(k)  | ...          | ATT'(last) ...
//
// What it can do already: the norm's parts of gradients that are final, and, with
// EngineSpec::update_at_once, the updates by them. Else every update waits for the whole norm: one
// that is not finite must skip them all on every rank (DESIGN section 5).

#include <algorithm>
#include <set>
#include <utility>

#include "worker/engine/schedule/dependencies.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/units.h"

namespace stretto {
namespace {

using OpList = IdVector<OpId, Op>;

// Of another of the instance's micro-batches.
OpList OfRole(OpList ops, int role) {
  for (Op& op : ops) op.tag.micro_batch = role;
  return ops;
}

void Append(OpList* to, const OpList& more) { to->insert(to->end(), more.begin(), more.end()); }

// What a micro-batch is cut into.
struct Parts {
  OpList head, rest, tail;
};

Parts PartsOf(const OpList& ops) {
  const auto last = std::find_if(ops.rbegin(), ops.rend(), [](const Op& op) {
                      return IsCollective(op.kind) && op.tag.layer >= 0;
                    }).base();
  const auto body = std::find_if(ops.begin(), last, [](const Op& op) {
    return op.tag.name != "embed" || op.tag.phase != Phase::kForward;
  });
  return {OpList(ops.begin(), body), OpList(body, last), OpList(last, ops.end())};
}

// The roots that operations write.
std::set<BufferId> WrittenBy(const StepProgram& step, const OpList& ops) {
  std::set<BufferId> roots;
  for (const Op& op : ops) {
    for (BufferId id : op.out) roots.insert(RootOf(step.buffers, id).buffer);
  }
  return roots;
}

// What the optimizer can do before `pending` runs goes in front of it.
OpList Finish(const StepProgram& step, const OpList& ready, const OpList& pending,
              const OpList& optimizer) {
  OpList ops = pending;
  Append(&ops, optimizer);
  const auto dependencies = DependenciesOf(ops, step.buffers);
  IdVector<OpId, bool> waits(ops.size());
  std::fill_n(waits.begin(), pending.size(), true);
  OpList early, late;
  for (size_t i = pending.size(); i < ops.size(); ++i) {
    const std::vector<OpId>& behind = dependencies[i];
    waits[i] = std::any_of(behind.begin(), behind.end(), [&](OpId op) { return waits[op]; });
    (waits[i] ? late : early).push_back(ops[i]);
  }
  OpList finish = ready;
  Append(&finish, early);
  Append(&finish, pending);
  Append(&finish, late);
  return finish;
}

// Only what head writes while the tail before it still runs has a copy per micro-batch in flight.
void KeepCopiesOf(const std::set<BufferId>& roots, StepProgram* step) {
  for (BufferId id : step->buffers.ids()) {
    Buffer& buffer = step->buffers[id];
    const bool copied = roots.contains(RootOf(step->buffers, id).buffer);
    if (buffer.binding == Binding::kSlot && !copied) buffer.binding = Binding::kStep;
  }
  step->slots = std::min(2, step->micro_batches);
}

}  // namespace

absl::Status CloseTails(const EngineSpec&, StepProgram* step) {
  std::vector<OpList> roles;
  for (const Op& op : step->units[FindUnit(*step, kMicroBatchUnit)].ops) {
    if (op.tag.micro_batch >= static_cast<int>(roles.size())) roles.emplace_back();
    roles.back().push_back(op);
  }
  const OpList optimizer = step->units[FindUnit(*step, kOptimizerUnit)].ops;
  std::vector<Parts> parts;
  for (const OpList& ops : roles) parts.push_back(PartsOf(ops));
  if (parts[0].rest.empty()) return absl::OkStatus();  // one rank: nothing to overlap with

  OpList within = parts[0].rest;
  for (size_t role = 1; role < parts.size(); ++role) {
    Append(&within, parts[role].head);
    Append(&within, parts[role - 1].tail);
    Append(&within, parts[role].rest);
  }
  const int count = static_cast<int>(parts.size());
  const OpList tail = OfRole(parts.back().tail, 0);
  const auto waits = std::find_if(tail.begin(), tail.end(), [](const Op& op) {
    return op.tag.layer <= 0 && InfoOf(op.kind).role != Role::kWeightGradient;
  });
  OpList next = parts[0].head;
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
  step->instances.push_back({.unit = 3, .micro_batches = {step->micro_batches - 1}, .waits = {}});
  return absl::OkStatus();
}

}  // namespace stretto
