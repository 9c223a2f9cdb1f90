// SPDX-License-Identifier: Apache-2.0

// Overlaps the end of each pass with the start of the next one, and the end of the last one with
// the optimizer. A pass is what an instance computes of its micro-batches: forward and backward or,
// in a stage of a pipeline, one of them. It is cut into parts (tails/parts.h), and the unit of a
// pass B behind a pass A is opening(B) last(A) head(B) tail(A) body(B). So the first all-gather of
// B has the last product of A to hide under, the last collective of A has the head of B, and the
// next one of B has the tail of A:
//
//   compute | ... w(ATT) | embed(k) | tail(k-1) | ATT0(k) ...  | tail(last) | norm parts, updates
//   comm.tp | ATT'(k-1)  .......... | embed(k)  | ...          | ATT'(last) ...
//
// If a unit has several micro-batches (merge_wgrads.cc), those within it meet in the same way. A
// pass stays closed to the one before it if
//
//   - both are of the same micro-batch, or one would change what the other reads;
//   - its head receives, and the tail that would wait for it might be what the sender waits for, or
//     is late without need (HasSlack).
//
// Strands that are woven take turns already, so a schedule that weaves closes its last tail alone.
//
// The last tail runs with the optimizer, in the unit "finish": the part of the optimizer that does
// not depend on the last collective, or on one of its own, runs before the operations that wait for
// it. It computes the norm parts of gradients that are final and, with EngineSpec::update_at_once,
// the updates by those gradients. With several replicas it is the sums of gradients that are final,
// and nothing that waits for them. Otherwise every update waits for the whole norm, because a norm
// that is not finite must skip all updates on every rank (DESIGN section 5).

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/spec/schedules.h"
#include "worker/engine/layout/layout.h"
#include "worker/engine/memory/copies.h"
#include "worker/engine/schedule/passes.h"
#include "worker/engine/schedule/pipeline/order.h"
#include "worker/engine/schedule/reorder/dependencies.h"
#include "worker/engine/schedule/tails/parts.h"

namespace stretto {
namespace {

// The operations, bound to another of the instance's micro-batches.
OpList OfRole(OpList ops, int role) {
  for (Op& op : ops) op.tag.micro_batch = role;
  return ops;
}

void Append(OpList* to, const OpList& more) { to->insert(to->end(), more.begin(), more.end()); }

// Returns the stage at the other end of the first transfer of this kind, or -1.
int OtherEnd(const EngineSpec& spec, const StepProgram& step, const Parts& pass, OpKind kind) {
  for (const OpList* ops : {&pass.opening, &pass.head, &pass.tail}) {
    for (const Op& op : *ops) {
      if (op.kind != kind) continue;
      const auto& ranks = step.groups[op.group].ranks;
      return PlaceOf(spec, kind == OpKind::kRecv ? ranks.front() : ranks.back()).stage;
    }
  }
  return -1;
}

// Whether a stage may wait for what another one sends before it sends to that one. Two neighbours
// whose micro-batches in flight differ by one exchange a micro-batch for another at the end of
// every pass: if both waited first, they would wait forever. If they differ by more, what a stage
// waits for was sent a pass ago.
bool HasSlack(const EngineSpec& spec, int stage, int other) {
  const auto in_flight = [&](int of) {
    const StageOfPipeline at = {
        .stage = of, .stages = spec.pp_size, .micro_batches = spec.micro_batches};
    return OrderFor(spec.schedule, at)
        .InFlight(PassKind::kForward, PassKind::kBackward, /*chunk=*/0);
  };
  return std::abs(in_flight(stage) - in_flight(other)) > 1;
}

// The memory that micro-batches share.
struct Shared {
  std::set<BufferId> read, written;  // roots
};
Shared SharedBy(const StepProgram& step, const std::vector<const OpList*>& parts) {
  Shared shared;
  const auto add = [&](const BufferList& ids, std::set<BufferId>* to) {
    for (BufferId id : ids) {
      const BufferId root = RootOf(step.buffers, id).buffer;
      const Buffer& buffer = step.buffers[root];
      if (buffer.arena != ArenaClass::kActivation && buffer.slots != kPerMicroBatch)
        to->insert(root);
    }
  };
  for (const OpList* ops : parts) {
    for (const Op& op : *ops) {
      add(op.in, &shared.read);
      add(op.out, &shared.written);
    }
  }
  return shared;
}

bool Meet(const std::set<BufferId>& a, const std::set<BufferId>& b) {
  return std::any_of(a.begin(), a.end(), [&](BufferId id) { return b.contains(id); });
}

// Whether opening and head of `next` may stand before the tail of `before`, if the two are of
// different micro-batches.
bool MayOverlap(const EngineSpec& spec, const StepProgram& step, const Parts& before,
                const Parts& next) {
  const Shared moves = SharedBy(step, {&next.opening, &next.head});
  const Shared stays = SharedBy(step, {&before.last, &before.tail});
  if (Meet(moves.written, stays.written) || Meet(moves.written, stays.read) ||
      Meet(moves.read, stays.written))
    return false;
  const int from = OtherEnd(spec, step, next, OpKind::kRecv);
  if (from < 0) return true;
  // To another stage than it receives from, a pass sends in the warm-up and at the end of the step.
  // There a stage has nothing but what has just arrived, and others wait for what it sends.
  return from == OtherEnd(spec, step, before, OpKind::kSend) &&
         HasSlack(spec, PlaceOf(spec, step.rank).stage, from);
}

// What runs from the end of one pass to the body of the next. `role` is that of `before`.
OpList Between(const Parts& before, int role, const Parts& next, bool overlaps) {
  OpList ops = overlaps ? next.opening : OpList();
  Append(&ops, OfRole(before.last, role));
  if (overlaps) Append(&ops, next.head);
  Append(&ops, OfRole(before.tail, role));
  if (!overlaps) Append(&ops, next.opening);
  if (!overlaps) Append(&ops, next.head);
  return ops;
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

class Closer {
 public:
  Closer(const EngineSpec& spec, const StepProgram& step)
      : spec_(spec), step_(step), only_last_(FindSchedule(spec.schedule.name)->weaves) {
    UnitId last = -1;
    for (const Instance& instance : step.instances) {
      if (!instance.micro_batches.empty()) last = instance.unit;
    }
    for (const Instance& instance : step.instances) {
      if (instance.micro_batches.empty() || passes_.contains(instance.unit)) continue;
      const Unit& unit = step.units[instance.unit];
      passes_[instance.unit] = only_last_ && instance.unit != last ? Whole(unit) : PartsOf(unit);
    }
  }

  // Whether there is a collective to overlap with.
  bool HasTails() const {
    return std::any_of(passes_.begin(), passes_.end(),
                       [](const auto& pass) { return !pass.second[0].last.empty(); });
  }
  // Whether a pass begins while the one before it still needs its copies.
  bool Overlaps() const { return !only_last_; }

  StepProgram Run() {
    StepProgram closed = step_;
    closed.units.clear();
    closed.instances.clear();
    const Instance* before = nullptr;
    for (const Instance& instance : step_.instances) {
      const bool is_pass = !instance.micro_batches.empty();
      if (!is_pass && before == nullptr) {
        const UnitId unit = closed.units.Add(step_.units[instance.unit]);
        closed.instances.push_back({.unit = unit, .micro_batches = {}, .waits = {}});
      } else if (!is_pass) {
        const UnitId unit = closed.units.Add({"finish", FinishBehind(*before, instance)});
        closed.instances.push_back(
            {.unit = unit, .micro_batches = {before->micro_batches.back()}, .waits = {}});
      } else {
        closed.instances.push_back(
            PassBehind(only_last_ ? nullptr : before, instance, &closed.units));
        before = &instance;
      }
    }
    // The first pass of a repeat may follow another one than the first passes of its periods.
    Repeat& repeat = closed.repeat;
    const InstanceId second = repeat.begin + repeat.period;
    if (second < repeat.end && closed.instances[repeat.begin].unit != closed.instances[second].unit)
      repeat.begin = second;
    return closed;
  }

 private:
  static std::vector<Parts> Whole(const Unit& unit) {
    return {{.opening = {}, .head = {}, .body = unit.ops, .last = {}, .tail = {}}};
  }

  // `before` is null if the pass stays behind all of it, or is the first.
  Instance PassBehind(const Instance* before, const Instance& pass, IdVector<UnitId, Unit>* units) {
    Instance closed = {.unit = -1, .micro_batches = pass.micro_batches, .waits = {}};
    const bool same = before != nullptr && before->micro_batches.back() == pass.micro_batches[0];
    // The instance's own micro-batches come first, then the one whose tail runs here.
    const int role = same ? 0 : static_cast<int>(std::ssize(pass.micro_batches));
    if (before != nullptr && !same) closed.micro_batches.push_back(before->micro_batches.back());
    const UnitId unit_before = before == nullptr ? UnitId(-1) : before->unit;
    const auto [made, fresh] = units_.try_emplace({unit_before, pass.unit, role});
    if (fresh) {
      const std::vector<Parts>& roles = passes_.at(pass.unit);
      const Parts none;
      const Parts& ends = before == nullptr ? none : passes_.at(before->unit).back();
      std::string name = step_.units[pass.unit].name;
      if (before != nullptr)
        absl::StrAppend(&name, " behind ", same ? "its " : "", step_.units[before->unit].name);
      const bool overlaps = !same && MayOverlap(spec_, step_, ends, roles[0]);
      OpList ops = Between(ends, role, roles[0], overlaps);
      Append(&ops, roles[0].body);
      for (int next = 1; next < std::ssize(roles); ++next) {
        Append(&ops, Between(roles[next - 1], next - 1, roles[next], true));
        Append(&ops, roles[next].body);
      }
      made->second = units->Add({std::move(name), std::move(ops)});
    }
    closed.unit = made->second;
    return closed;
  }

  OpList FinishBehind(const Instance& pass, const Instance& optimizer) const {
    const Parts& ends = passes_.at(pass.unit).back();
    const OpList tail = OfRole(ends.tail, 0);
    // Another stage waits for what is sent, and nobody for the optimizer yet.
    const auto sent = std::find_if(tail.rbegin(), tail.rend(), [](const Op& op) {
                        return op.kind == OpKind::kSend;
                      }).base();
    // A tail starts with weight gradients, which do not need the last collective.
    const auto waits = std::find_if(sent, tail.end(), [](const Op& op) {
      return InfoOf(op.kind).role != OperationRole::kWeightGradient;
    });
    OpList ready = OfRole(ends.last, 0);
    Append(&ready, OpList(tail.begin(), waits));
    return Finish(step_, ready, OpList(waits, tail.end()), step_.units[optimizer.unit].ops);
  }

  const EngineSpec& spec_;
  const StepProgram& step_;
  const bool only_last_;
  std::map<UnitId, std::vector<Parts>> passes_;
  std::map<std::tuple<UnitId, UnitId, int>, UnitId> units_;  // made: before, pass, role of before
};

}  // namespace

absl::Status CloseTails(const EngineSpec& spec, StepProgram* step) {
  Closer closer(spec, *step);
  if (!closer.HasTails()) return absl::OkStatus();
  StepProgram closed = closer.Run();
  *step = std::move(closed);
  if (closer.Overlaps()) KeepCopies(step);
  return absl::OkStatus();
}

}  // namespace stretto
