// SPDX-License-Identifier: Apache-2.0
#pragma once
// Walks the operations of a program and describes what each computes by words, for same_values.cc.
//
// An operation's words are its class (kind, attributes, shapes), for a collective which call it is,
// and what its inputs hold. With Sums::kInAnyOrder, an operation that adds to a gradient has words
// for each of its contributions instead, which do not depend on the sum so far, and words for the
// sum behind it: the gradient's name, what it held at first, and how many contributions were added.

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/base/check.h"
#include "worker/engine/program/held_values.h"
#include "worker/engine/program/numbers.h"
#include "worker/engine/program/same_values.h"

namespace stretto {

// What is compared by number. A table that is const gets nothing new: what it lacks is -1.
struct ValueTables {
  absl::flat_hash_map<std::string, int> names;
  Numbers shapes, classes, operations;
};
inline int NumberOf(ValueTables& tables, const std::string& name) {
  return tables.names.try_emplace(name, static_cast<int>(tables.names.size())).first->second;
}
inline int NumberOf(const ValueTables& tables, const std::string& name) {
  const auto found = tables.names.find(name);
  return found == tables.names.end() ? -1 : found->second;
}
inline int NumberOf(Numbers& numbers, Numbers::Words words) { return numbers.Add(words); }
inline int NumberOf(const Numbers& numbers, Numbers::Words words) { return numbers.Find(words); }

// Values are outputs of operations and, from kGiven on, what buffers hold before the step.
inline constexpr int kMostOutputs = 8;
inline constexpr Value kGiven = Value{1} << 40;
inline Value OutputOf(int operation, size_t output) {
  return Value{operation} * kMostOutputs + static_cast<Value>(output);
}
inline Value GivenIn(int name) { return kGiven + 1 + name; }  // -1: a name that the tables lack

// A clone computes what its original computes.
inline Phase OriginalPhase(Phase phase) {
  return phase == Phase::kRecompute ? Phase::kForward : phase;
}

// The words of a call of a collective, behind the class.
inline constexpr size_t kCallWords = 7;

// Instead of a class, which is -1 if the tables lack it.
inline constexpr int64_t kContribution = -2, kSum = -3;
inline bool IsOfSum(Numbers::Words words) { return words.front() < -1; }

// An operation as it is executed. Borrows all.
struct Execution {
  const Op& op;  // in a program or in its unit
  int micro_batch;
  absl::Span<const BufferId> in, out;  // in the flat list of buffers
  int op_class;                        // ValueWalk::ClassOf
};

// T is ValueTables, which gets what is new, or const ValueTables.
template <class T>
class ValueWalk {
 public:
  // Borrows all. `buffers` is the flat list.
  ValueWalk(const IdVector<BufferId, Buffer>& buffers, const IdVector<GroupId, Group>& groups,
            Sums sums, T& tables)
      : buffers_(buffers), sums_(sums), tables_(tables), held_(buffers) {
    for (const Buffer& buffer : buffers) {
      words_.assign({static_cast<int64_t>(buffer.dtype)});
      words_.insert(words_.end(), buffer.shape.begin(), buffer.shape.end());
      shapes_.push_back(NumberOf(tables_.shapes, words_));
    }
    for (BufferId id : buffers.ids()) {
      if (IsGiven(buffers[id].arena) && buffers[id].alias < 0)
        held_.Fill(id, GivenIn(NumberOf(tables_, buffers[id].name)));
    }
    for (const Group& group : groups) groups_.push_back(NumberOf(tables_, group.name));
    if (sums_ == Sums::kInAnyOrder) totals_.resize(buffers.size());
  }

  // The class of an operation with these operands.
  int ClassOf(const Op& op, absl::Span<const BufferId> in, absl::Span<const BufferId> out) {
    words_.assign({static_cast<int64_t>(op.kind), static_cast<int64_t>(in.size()),
                   static_cast<int64_t>(out.size())});
    for (BufferId id : in) words_.push_back(shapes_[id]);
    for (BufferId id : out) words_.push_back(shapes_[id]);
    words_.insert(words_.end(), op.attributes.begin(), op.attributes.end());
    return NumberOf(tables_.classes, words_);
  }

  // Executes the next operation: gives its outputs their values. Calls number(words, near,
  // unique), which returns the number of words in ValueTables::operations, or -1, which ends the
  // call with false. `near` is for Numbers. `unique` words describe a contribution, which a step
  // has once.
  template <class Number>
  bool Next(const Execution& at, const Number& number) {
    STRETTO_CHECK(at.out.size() <= kMostOutputs);
    if (sums_ == Sums::kInAnyOrder && InfoOf(at.op.kind).role == OperationRole::kWeightGradient)
      return Add(at, number);
    const Numbers::Words words = Describe(at);
    const int operation = number(words, near_, false);
    if (operation < 0) return false;
    for (size_t o = 0; o < at.out.size(); ++o) held_.Fill(at.out[o], OutputOf(operation, o));
    return true;
  }
  // What a buffer holds now, valid until the next call.
  Numbers::Words Held(BufferId id) {
    words_.clear();
    held_.Append(id, &words_);
    return words_;
  }

 private:
  Numbers::Words Describe(const Execution& at) {
    words_.assign({at.op_class});
    if (at.op.group >= 0) AppendCall(at);
    near_ = -1;
    for (BufferId id : at.in) {
      const size_t first = words_.size();
      held_.Append(id, &words_);
      // The value of the first piece. Few operations have the same latest operand.
      const Value value = words_[words_[first] < -1 ? first + 1 : first];
      if (value < kGiven) near_ = std::max(near_, static_cast<int>(value / kMostOutputs));
    }
    return words_;
  }

  void AppendCall(const Execution& at) {
    const Tag& tag = at.op.tag;
    int64_t call[] = {groups_[at.op.group],
                      NumberOf(tables_, tag.name),
                      tag.layer,
                      at.micro_batch,
                      tag.slice,
                      static_cast<int64_t>(tag.phase)};
    const auto number = static_cast<size_t>(calls_.Add(call));
    times_.resize(calls_.size());
    call[5] = static_cast<int64_t>(OriginalPhase(tag.phase));
    words_.insert(words_.end(), std::begin(call), std::end(call));
    words_.push_back(times_[number]++);
  }

  // A gradient to which operations add.
  struct Total {
    HeldWords base = {};  // what its memory held before the first contribution
    HeldWords now = {};   // after the last one
    int contributions = 0;
  };

  template <class Number>
  bool Add(const Execution& at, const Number& number) {
    const std::vector<HeldWords> parts =
        at.op.kind == OpKind::kGemmWgrad ? PartsOf(at) : std::vector<HeldWords>{ContributionOf(at)};
    return std::all_of(parts.begin(), parts.end(),
                       [&](const HeldWords& words) { return number(words, -1, true) >= 0; }) &&
           std::all_of(at.out.begin(), at.out.end(), [&](BufferId id) {
             return AddTo(id, static_cast<int>(parts.size()), number);
           });
  }

  HeldWords ContributionOf(const Execution& at) {
    HeldWords words = {kContribution, at.op_class};
    for (BufferId id : at.out) words.push_back(NumberOf(tables_, buffers_[id].name));
    for (BufferId id : at.in) {
      if (std::find(at.out.begin(), at.out.end(), id) == at.out.end()) held_.Append(id, &words);
    }
    return words;
  }

  template <class Number>
  bool AddTo(BufferId id, int added, const Number& number) {
    Total& total = totals_[id];
    const Numbers::Words held = Held(id);
    if (held != Numbers::Words(total.now)) total = {.base = {held.begin(), held.end()}};
    total.contributions += added;
    HeldWords words = {kSum, NumberOf(tables_, buffers_[id].name), total.contributions};
    words.insert(words.end(), total.base.begin(), total.base.end());
    const int sum = number(words, -1, false);
    if (sum < 0) return false;
    held_.Fill(id, OutputOf(sum, 0));
    total.now = {OutputOf(sum, 0)};
    return true;
  }

  // A product over rows adds the products over parts of them, whose operands are values of their
  // own: rows are cut wherever a piece of an operand begins.
  std::vector<HeldWords> PartsOf(const Execution& at) {
    const int64_t rows = buffers_[at.in[0]].shape[0];
    std::vector<HeldPiece> pieces[2];
    int64_t row_bytes[2];
    std::set<int64_t> cuts = {rows};
    for (size_t i : {size_t{0}, size_t{1}}) {
      row_bytes[i] = buffers_[at.in[i]].bytes() / rows;
      Numbers::Words held = Held(at.in[i]);
      pieces[i] = TakeHeld(&held);
      for (const HeldPiece& piece : pieces[i]) {
        if (piece.begin % row_bytes[i] == 0) cuts.insert(piece.begin / row_bytes[i]);
      }
    }
    std::vector<HeldWords> parts;
    for (auto cut = cuts.begin(); *cut < rows; ++cut) {
      const int64_t end = *std::next(cut);
      HeldWords& words = parts.emplace_back();
      words = {kContribution, static_cast<int64_t>(at.op.kind), shapes_[at.out[0]],
               NumberOf(tables_, buffers_[at.out[0]].name), end - *cut};
      for (size_t i : {size_t{0}, size_t{1}})
        AppendPart(pieces[i], *cut * row_bytes[i], end * row_bytes[i], &words);
    }
    return parts;
  }

  // Appends the bytes [from, to) of an operand: their number, that of their pieces, and the pieces.
  static void AppendPart(const std::vector<HeldPiece>& pieces, int64_t from, int64_t to,
                         HeldWords* words) {
    words->insert(words->end(), {to - from, 0});
    const size_t count = words->size() - 1;
    for (size_t i = 0; i < pieces.size(); ++i) {
      const int64_t end = i + 1 < pieces.size() ? pieces[i + 1].begin : to;
      if (pieces[i].begin >= to || end <= from) continue;
      ++(*words)[count];
      words->insert(words->end(), {pieces[i].value, std::max(pieces[i].begin, from) - from,
                                   pieces[i].start - from});
    }
  }

  const IdVector<BufferId, Buffer>& buffers_;
  const Sums sums_;
  T& tables_;
  HeldValues held_;
  IdVector<BufferId, int> shapes_;
  IdVector<GroupId, int> groups_;  // by name
  IdVector<BufferId, Total> totals_;
  Numbers calls_;
  std::vector<int> times_;  // [call]
  std::vector<int64_t> words_;
  int near_ = -1;  // of the operation that was described last
};

}  // namespace stretto
