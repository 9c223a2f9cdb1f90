// SPDX-License-Identifier: Apache-2.0

// The canonical step numbers what its operations compute, as words (value_walk.h). The value of an
// output is the number of its operation together with the place of the output. An operation of the
// other program that has the words of one of the canonical step gets that number, and so its
// outputs get the values that they have there.

#include "worker/engine/program/same_values.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/value_report.h"
#include "worker/engine/program/value_walk.h"

namespace stretto {

struct CanonicalValues::Numbering {
  StepProgram step;
  Sums sums = Sums::kInOrder;
  ValueTables tables;
  std::vector<StepPlace> first;  // by number in tables.operations: the first that computes it
  std::map<std::string, HeldWords> left;  // by buffer, behind the last operation
};

namespace {

// Buffers that the host or a later step reads, by name. Errors: InvalidArgument, two have one name.
absl::StatusOr<std::map<std::string, BufferId>> OutlivingBuffers(
    const IdVector<BufferId, Buffer>& buffers) {
  std::map<std::string, BufferId> outlive;
  for (BufferId id : buffers.ids()) {
    const Buffer& buffer = buffers[id];
    if (buffer.alias >= 0 || buffer.arena == ArenaClass::kActivation) continue;
    if (outlive.emplace(buffer.name, id).second) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "buffer ", buffer.name, ": found two of this name that outlive the step, expected one"));
  }
  return outlive;
}

// The flat list of a step's buffers, without its operations.
IdVector<BufferId, Buffer> BuffersOf(const StepProgram& step) {
  StepProgram idle;
  idle.micro_batches = step.micro_batches;
  idle.buffers = step.buffers;
  return Expand(idle).buffers;
}

// Executes a step in program order.
class CanonicalRun {
 public:
  CanonicalRun(const StepProgram& step, const IdVector<BufferId, Buffer>& buffers, Sums sums,
               ValueTables* tables, std::vector<StepPlace>* first)
      : step_(step),
        map_(step),
        walk_(buffers, step.groups, sums, *tables),
        tables_(*tables),
        first_(*first) {}

  absl::Status Run() {
    IdVector<UnitId, IdVector<OpId, int>> classes(step_.units.size());
    for (InstanceId id : step_.instances.ids()) {
      const Instance& instance = step_.instances[id];
      const Unit& unit = step_.units[instance.unit];
      IdVector<OpId, int>& of_unit = classes[instance.unit];
      for (OpId op : unit.ops.ids()) {
        const int role = unit.ops[op].tag.micro_batch;
        const int micro_batch =
            role < 0 ? role : instance.micro_batches.at(static_cast<size_t>(role));
        Resolve(unit.ops[op].in, micro_batch, &in_);
        Resolve(unit.ops[op].out, micro_batch, &out_);
        if (op == of_unit.next()) of_unit.push_back(walk_.ClassOf(unit.ops[op], in_, out_));
        RETURN_IF_ERROR(Number({unit.ops[op], micro_batch, in_, out_, of_unit[op]}, {id, op}));
      }
    }
    return absl::OkStatus();
  }
  Numbers::Words Held(BufferId id) { return walk_.Held(id); }

 private:
  void Resolve(const BufferList& ids, int micro_batch, std::vector<BufferId>* to) const {
    to->clear();
    for (BufferId id : ids) to->push_back(map_.Find(id, micro_batch));
  }

  absl::Status Number(const Execution& execution, StepPlace place) {
    bool twice = false;
    walk_.Next(execution, [&](Numbers::Words words, int near, bool unique) {
      const int number = tables_.operations.Add(words, near);
      const bool fresh = std::cmp_equal(number, first_.size());
      if (fresh) first_.push_back(place);
      twice |= unique && !fresh;
      return number;
    });
    if (!twice) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("instance ", place.instance.value(), ", operation ", place.op.value(),
                     ": found a contribution that was added before, expected each once"));
  }

  const StepProgram& step_;
  const BufferMap map_;
  ValueWalk<ValueTables> walk_;
  ValueTables& tables_;
  std::vector<StepPlace>& first_;
  std::vector<BufferId> in_, out_;
};

}  // namespace

absl::StatusOr<CanonicalValues> CanonicalValues::Of(StepProgram canonical, Sums sums) {
  auto numbering = std::make_shared<Numbering>();
  numbering->step = std::move(canonical);
  numbering->sums = sums;
  const IdVector<BufferId, Buffer> buffers = BuffersOf(numbering->step);
  ASSIGN_OR_RETURN(const auto outlive, OutlivingBuffers(buffers));
  CanonicalRun run(numbering->step, buffers, sums, &numbering->tables, &numbering->first);
  RETURN_IF_ERROR(run.Run());
  for (const auto& [name, id] : outlive) {
    const Numbers::Words held = run.Held(id);
    numbering->left[name] = {held.begin(), held.end()};
  }
  CanonicalValues values;
  values.numbering_ = std::move(numbering);
  return values;
}

absl::Status CheckSameValues(const CanonicalValues& canonical, const Program& program,
                             const HappensBefore& order) {
  const CanonicalValues::Numbering& numbering = *canonical.numbering_;
  const Numbers& operations = numbering.tables.operations;
  const ValueReport report(numbering.step, numbering.tables, numbering.first);
  ASSIGN_OR_RETURN(const auto outlive, OutlivingBuffers(program.buffers));
  ValueWalk<const ValueTables> walk(program.buffers, program.groups, numbering.sums,
                                    numbering.tables);
  std::vector<bool> computed(operations.size());
  for (OpId id : order.order()) {
    const Op& op = program.ops[id];
    absl::Status status;
    const auto find = [&](Numbers::Words words, int near, bool unique) {
      const int number = operations.Find(words, near);
      if (number < 0 || (unique && computed[static_cast<size_t>(number)])) {
        status = report.Unknown(program, id, words);
        return -1;
      }
      computed[static_cast<size_t>(number)] = true;
      return number;
    };
    const int op_class = walk.ClassOf(op, op.in, op.out);
    if (!walk.Next({op, op.tag.micro_batch, op.in, op.out, op_class}, find)) return status;
  }
  for (size_t number = 0; number < computed.size(); ++number) {
    // In any order, sums in between are not those of the canonical step.
    const bool passing = operations[static_cast<int>(number)].front() == kSum;
    if (!computed[number] && !passing) return report.Missing(static_cast<int>(number));
  }
  for (const auto& [name, expected] : numbering.left) {
    const auto buffer = outlive.find(name);
    if (buffer == outlive.end()) return report.NoBuffer(name);
    const Numbers::Words held = walk.Held(buffer->second);
    if (held != Numbers::Words(expected)) return report.Left(name, held, expected);
  }
  return absl::OkStatus();
}

}  // namespace stretto
