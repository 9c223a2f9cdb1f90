// SPDX-License-Identifier: Apache-2.0

// Parses line by line: the first word selects what a line declares, and the other words are its
// fields, in the form that text_print.cc prints. The text may come from an untrusted source, so
// every number is bounded, and an error names the line, what was found and what was expected.

#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

using Words = std::vector<absl::string_view>;

// Limits that keep hostile text from requesting too much memory.
constexpr int64_t kMaxDimension = int64_t{1} << 40;
constexpr int64_t kMaxAttribute = int64_t{1} << 28;   // products of three stay in range
constexpr int64_t kMaxDrop = (int64_t{1} << 32) - 1;  // a probability in 2^-32
constexpr int kMaxIndex = 50'000'000;

class Parser {
 public:
  absl::StatusOr<Program> Run(absl::string_view text) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      ++line_;
      Words words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (words.empty()) continue;
      RETURN_IF_ERROR(ParseLine(words));
    }
    if (!header_) return Error("nothing", "a line 'program rank=R world=W'");
    return std::move(program_);
  }

 private:
  absl::Status Error(absl::string_view found, absl::string_view expected) const {
    return absl::InvalidArgumentError(
        absl::StrCat("program text line ", line_, ": found '", found, "', expected ", expected));
  }

  template <class T>
  absl::Status Integer(absl::string_view word, T low, T high, T* value) const {
    int64_t number;
    if (!absl::SimpleAtoi(word, &number) || number < low || number > high) {
      return Error(word, absl::StrCat("an integer in [", low, ", ", high, "]"));
    }
    *value = static_cast<T>(number);
    return absl::OkStatus();
  }

  template <class Tag>
  absl::Status Integer(absl::string_view word, int low, int high, Index<Tag>* index) const {
    int value;
    RETURN_IF_ERROR(Integer(word, low, high, &value));
    *index = Index<Tag>::Of(value);
    return absl::OkStatus();
  }

  template <class Bound, class List>
  absl::Status Integers(absl::string_view words, Bound low, Bound high, List* values) const {
    for (absl::string_view word : absl::StrSplit(words, ',')) {
      values->emplace_back();
      RETURN_IF_ERROR(Integer(word, low, high, &values->back()));
    }
    return absl::OkStatus();
  }

  absl::Status Real(absl::string_view word, int64_t* attribute) const {
    double number;
    if (!absl::SimpleAtod(word, &number) || std::signbit(number) || !(number <= kMaxAttribute))
      return Error(word, absl::StrCat("a number in [0, ", kMaxAttribute, "]"));
    *attribute = RealAttribute(number);
    return absl::OkStatus();
  }

  template <class Id, class T>
  absl::Status IndexOf(absl::string_view name, const IdVector<Id, T>& items, absl::string_view what,
                       Id* index) const {
    for (Id id : items.ids()) {
      if (items[id].name == name) {
        *index = id;
        return absl::OkStatus();
      }
    }
    return Error(name, absl::StrCat("the name of a declared ", what));
  }

  absl::Status ParseLine(const Words& words) {
    if (words[0] == "program") return ParseHeader(words);
    if (!header_) return Error(words[0], "a first line 'program rank=R world=W'");
    if (words[0] == "group") return ParseGroup(words);
    if (words[0] == "lane") return ParseLane(words);
    if (words[0] == "buffer") return ParseBuffer(words);
    return ParseOp(words);
  }

  absl::Status ParseHeader(const Words& words) {
    if (header_ || words.size() != 3) return Error(words[0], "one line 'program rank=R world=W'");
    absl::string_view rank = words[1], world = words[2];
    if (!absl::ConsumePrefix(&rank, "rank=")) return Error(rank, "rank=R");
    if (!absl::ConsumePrefix(&world, "world=")) return Error(world, "world=W");
    RETURN_IF_ERROR(Integer(world, 1, 1 << 20, &program_.world_size));
    RETURN_IF_ERROR(Integer(rank, 0, program_.world_size - 1, &program_.rank));
    header_ = true;
    return absl::OkStatus();
  }

  absl::Status ParseGroup(const Words& words) {
    if (words.size() != 3) return Error(words[0], "'group NAME RANK,RANK...'");
    Group group{std::string(words[1]), {}};
    RETURN_IF_ERROR(Integers(words[2], 0, program_.world_size - 1, &group.ranks));
    program_.groups.push_back(std::move(group));
    return absl::OkStatus();
  }

  absl::Status ParseLane(const Words& words) {
    if (words.size() != 2) return Error(words[0], "'lane NAME'");
    program_.lanes.push_back({std::string(words[1])});
    return absl::OkStatus();
  }

  absl::Status ParseId(absl::string_view word, int limit, BufferId* id) const {
    if (!absl::ConsumePrefix(&word, "%")) return Error(word, "a buffer '%N'");
    return Integer(word, 0, limit - 1, id);
  }

  absl::Status ParseBuffer(const Words& words) {
    if (words.size() < 6) return Error(words[0], "'buffer %N NAME DTYPE SHAPE CLASS'");
    const int next = program_.buffers.next().value();
    BufferId id;
    RETURN_IF_ERROR(ParseId(words[1], kMaxIndex, &id));
    if (id.value() != next) return Error(words[1], absl::StrCat("%", next));
    Buffer buffer;
    buffer.name = std::string(words[2]);
    RETURN_IF_ERROR(ParseDType(words[3], &buffer.dtype));
    RETURN_IF_ERROR(Integers(words[4], int64_t{0}, kMaxDimension, &buffer.shape));
    int64_t elements = 1;
    for (int64_t d : buffer.shape) {
      if (d > 0 && elements > kMaxDimension / d) {
        return Error(words[4], absl::StrCat("a shape of at most ", kMaxDimension, " elements"));
      }
      elements *= d;
    }
    RETURN_IF_ERROR(ParseArena(words[5], &buffer.arena));
    for (size_t i = 6; i < words.size(); ++i) {
      absl::string_view word = words[i];
      if (absl::ConsumePrefix(&word, "@")) {
        RETURN_IF_ERROR(Integer(word, int64_t{0}, kMaxDimension, &buffer.offset));
      } else if (absl::ConsumePrefix(&word, "alias=")) {
        const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(word, '+');
        RETURN_IF_ERROR(ParseId(parts.first, next, &buffer.alias));
        RETURN_IF_ERROR(Integer(parts.second, int64_t{0}, kMaxDimension, &buffer.alias_offset));
      } else {
        return Error(word, "'alias=%N+ELEMENT' or '@OFFSET'");
      }
    }
    program_.buffers.push_back(std::move(buffer));
    return absl::OkStatus();
  }

  absl::Status ParseDType(absl::string_view word, DType* dtype) const {
    for (DType candidate : {DType::kF32, DType::kBF16, DType::kI32}) {
      if (word == NameOf(candidate)) {
        *dtype = candidate;
        return absl::OkStatus();
      }
    }
    return Error(word, "f32, bf16 or i32");
  }

  absl::Status ParseArena(absl::string_view word, ArenaClass* arena) const {
    for (int i = 0; i <= static_cast<int>(ArenaClass::kActivation); ++i) {
      if (word == NameOf(static_cast<ArenaClass>(i))) {
        *arena = static_cast<ArenaClass>(i);
        return absl::OkStatus();
      }
    }
    return Error(word, "parameter, gradient, optimizer, input, output or activation");
  }

  absl::Status ParseTagName(absl::string_view word, Tag* tag) const {
    tag->name = std::string(word);
    const size_t dot = word.find('.');
    if (word[0] != 'L' || dot == absl::string_view::npos) return absl::OkStatus();
    int layer;
    if (absl::SimpleAtoi(word.substr(1, dot - 1), &layer) && layer >= 0) {
      tag->layer = layer;
      tag->name = std::string(word.substr(dot + 1));
    }
    return absl::OkStatus();
  }

  absl::Status ParsePhase(absl::string_view word, Phase* phase) const {
    for (Phase candidate :
         {Phase::kForward, Phase::kRecompute, Phase::kBackward, Phase::kOptimizer}) {
      if (word == NameOf(candidate)) {
        *phase = candidate;
        return absl::OkStatus();
      }
    }
    return Error(word, "fwd, rec, bwd or opt");
  }

  absl::Status ParseOperands(absl::string_view word, BufferList* ids) const {
    for (absl::string_view id : absl::StrSplit(word, ',')) {
      ids->emplace_back();
      RETURN_IF_ERROR(ParseId(id, program_.buffers.next().value(), &ids->back()));
    }
    return absl::OkStatus();
  }

  absl::Status ParseOp(const Words& words) {
    if (words.size() < 5) return Error(words[0], "'INDEX LANE KIND NAME PHASE ...'");
    int index;
    RETURN_IF_ERROR(Integer(words[0], 0, kMaxIndex, &index));
    if (index != program_.ops.next().value()) {
      return Error(words[0], absl::StrCat("operation ", program_.ops.size()));
    }
    Op op;
    RETURN_IF_ERROR(IndexOf(words[1], program_.lanes, "lane", &op.lane));
    const OpInfo* info = FindOp(words[2]);
    if (info == nullptr) return Error(words[2], "a known kind of operation");
    op.kind = info->kind;
    op.attributes.assign(info->attributes.size(), 0);
    RETURN_IF_ERROR(ParseTagName(words[3], &op.tag));
    RETURN_IF_ERROR(ParsePhase(words[4], &op.tag.phase));
    for (size_t i = 5; i < words.size(); ++i) RETURN_IF_ERROR(ParseOpWord(words[i], *info, &op));
    program_.ops.push_back(std::move(op));
    return absl::OkStatus();
  }

  absl::Status ParseOpWord(absl::string_view word, const OpInfo& info, Op* op) const {
    if (absl::ConsumePrefix(&word, "in=")) return ParseOperands(word, &op->in);
    if (absl::ConsumePrefix(&word, "out=")) return ParseOperands(word, &op->out);
    if (absl::ConsumePrefix(&word, "on="))
      return IndexOf(word, program_.groups, "group", &op->group);
    if (absl::ConsumePrefix(&word, "wait=")) return Integers(word, 0, kMaxIndex, &op->waits);
    for (size_t i = 0; i < info.attributes.size(); ++i) {
      absl::string_view value = word, name = info.attributes[i];
      const bool real = absl::ConsumePrefix(&name, "~");
      if (!absl::ConsumePrefix(&value, name) || !absl::ConsumePrefix(&value, "=")) continue;
      if (real) return Real(value, &op->attributes[i]);
      return Integer(value, int64_t{0}, name == "drop" ? kMaxDrop : kMaxAttribute,
                     &op->attributes[i]);
    }
    if (absl::ConsumePrefix(&word, "mb")) return Integer(word, 0, kMaxIndex, &op->tag.micro_batch);
    if (absl::ConsumePrefix(&word, "s")) return Integer(word, 0, kMaxIndex, &op->tag.slice);
    return Error(word, "mbN, sN, in=, out=, on=, an attribute of the operation, or wait=");
  }

  Program program_;
  bool header_ = false;
  int line_ = 0;
};

}  // namespace

absl::StatusOr<Program> Parse(absl::string_view text) { return Parser().Run(text); }

}  // namespace stretto
