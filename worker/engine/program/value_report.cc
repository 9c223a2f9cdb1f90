// SPDX-License-Identifier: Apache-2.0

// Explains an operation whose words the canonical step lacks by the one that it most likely is: of
// the same kind and tag, with most operands in common. The first operand that differs is named,
// with the operations that computed what it holds and what it should hold.

#include "worker/engine/program/value_report.h"

#include "absl/strings/str_cat.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

template <class... Words>
absl::Status Differ(const Words&... words) {
  return absl::InvalidArgumentError(absl::StrCat("values differ: ", words...));
}

// Behind the class and, for a collective, its call.
Numbers::Words OperandsOf(const Op& op, Numbers::Words words) {
  return words.subspan(1 + (op.group >= 0 ? kCallWords : 0));
}

std::string NameOfOp(const Op& op) {
  return absl::StrCat("'", InfoOf(op.kind).name, " ", PrintTag(op.tag), "'");
}

}  // namespace

absl::Status ValueReport::Unknown(const Program& program, OpId id, Numbers::Words words) const {
  const Op& op = program.ops[id];
  const std::string at = PrintOp(program, id);
  if (IsOfSum(words)) {
    return Differ(at, ": found a contribution that is unknown, was added before or is of another ",
                  "sum, expected each contribution of the canonical program once");
  }
  const int expected = Closest(op, words);
  if (expected < 0) return Differ(at, ": found this operation, expected none of its kind and tag");
  Numbers::Words found = OperandsOf(op, words);
  Numbers::Words wanted = OperandsOf(op, tables_.operations[expected]);
  for (size_t i = 0; i < op.in.size(); ++i) {
    const std::vector<HeldPiece> holds = TakeHeld(&found), should = TakeHeld(&wanted);
    if (holds == should) continue;
    return Differ(at, ": operand ", BareName(InfoOf(op.kind).inputs[i]), ", %", op.in[i].value(),
                  " (", program.buffers[op.in[i]].name, "): ", Difference(holds, should));
  }
  return Differ(at, ": found other attributes, shapes or calls before it, expected those of ",
                NameOfOp(At(expected)));
}

absl::Status ValueReport::Missing(int operation) const {
  return Differ("found no operation that computes what ", NameOfOp(At(operation)),
                " computes, expected one");
}

absl::Status ValueReport::NoBuffer(const std::string& name) const {
  return Differ("found no buffer ", name, ", expected one that outlives the step");
}

absl::Status ValueReport::Left(const std::string& name, Numbers::Words found,
                               Numbers::Words wanted) const {
  return Differ("after the step, buffer ", name, ": ",
                Difference(TakeHeld(&found), TakeHeld(&wanted)));
}

// Returns the operation of a number, with its micro-batch.
Op ValueReport::At(int number) const {
  const StepPlace& place = first_[static_cast<size_t>(number)];
  const Instance& instance = canonical_.instances[place.instance];
  Op op = canonical_.units[instance.unit].ops[place.op];
  int& micro_batch = op.tag.micro_batch;
  if (micro_batch >= 0) micro_batch = instance.micro_batches.at(static_cast<size_t>(micro_batch));
  return op;
}

// Returns the number of the operation with this kind and tag that has most operands in common, or
// -1 if there is none.
int ValueReport::Closest(const Op& op, Numbers::Words words) const {
  Tag tag = op.tag;
  tag.phase = OriginalPhase(tag.phase);
  int closest = -1, most = -1;
  for (size_t n = 0; n < first_.size(); ++n) {
    const int number = static_cast<int>(n);
    const Op other = At(number);
    if (other.kind != op.kind || other.tag != tag || other.in.size() != op.in.size()) continue;
    if (IsOfSum(tables_.operations[number])) continue;
    Numbers::Words ours = OperandsOf(op, words),
                   theirs = OperandsOf(other, tables_.operations[number]);
    int common = 0;
    for (size_t i = 0; i < op.in.size(); ++i) common += TakeHeld(&ours) == TakeHeld(&theirs);
    if (common <= most) continue;
    most = common;
    closest = number;
  }
  return closest;
}

std::string ValueReport::Describe(const HeldPiece& piece) const {
  if (piece.value == kNothing) return "nothing";
  if (piece.value >= kGiven) {
    for (const auto& [name, number] : tables_.names) {
      if (GivenIn(number) == piece.value) return absl::StrCat("what was given in ", name);
    }
    return "what was given in another buffer";
  }
  const Op op = At(static_cast<int>(piece.value / kMostOutputs));
  const auto output = static_cast<size_t>(piece.value % kMostOutputs);
  return absl::StrCat(BareName(InfoOf(op.kind).outputs[output]), " of ", NameOfOp(op));
}

// Of the first piece that differs.
std::string ValueReport::Difference(const std::vector<HeldPiece>& found,
                                    const std::vector<HeldPiece>& expected) const {
  size_t i = 0;
  while (i < found.size() && i < expected.size() && found[i] == expected[i]) ++i;
  const auto at = [&](const std::vector<HeldPiece>& pieces) {
    if (i >= pieces.size()) return std::string("no more");
    const HeldPiece& piece = pieces[i];
    const std::string what = Describe(piece);
    if (piece.begin == piece.start && piece.begin == 0) return what;
    return absl::StrCat(what, " from its byte ", piece.begin - piece.start, " on at byte ",
                        piece.begin);
  };
  return absl::StrCat("found ", at(found), ", expected ", at(expected));
}

}  // namespace stretto
