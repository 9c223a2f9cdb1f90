// SPDX-License-Identifier: Apache-2.0

// The clock of an operation (happens_before.h) counts, per lane, the operations that complete
// before it starts. All operations of a group are on one lane, so the count of a group is the
// number of its calls among the first operations of that lane.

#include "worker/engine/program/skeleton.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "proto/base/status_macros.h"
#include "worker/engine/program/collective_op.h"
#include "worker/engine/program/happens_before.h"

namespace stretto {
namespace {

constexpr int32_t kFormat = 0x534b4c32;  // "SKL2"

uint32_t ChecksumOf(const Program& program, const Op& op) { return Crc32c(CallOf(program, op)); }

class Writer {
 public:
  void Word(int32_t word) { bytes_.append(reinterpret_cast<const char*>(&word), sizeof(word)); }
  void Text(const std::string& text) {
    Word(static_cast<int32_t>(text.size()));
    bytes_.append(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads what Writer wrote. After a failure every result is 0 and ok() is false.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  int32_t Word() {
    int32_t word = 0;
    if (!Has(sizeof(word))) return 0;
    std::memcpy(&word, bytes_.data(), sizeof(word));
    bytes_.remove_prefix(sizeof(word));
    return word;
  }
  // A number of items of at least `size` bytes each, all of which are still to come.
  int32_t Count(size_t size) {
    const int32_t count = Word();
    if (count < 0 || !Has(count * size)) return Fail();
    return count;
  }
  std::string Text() {
    const int32_t size = Count(1);
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && bytes_.empty(); }

 private:
  bool Has(size_t size) {
    if (ok_ && bytes_.size() >= size) return true;
    Fail();
    return false;
  }
  int32_t Fail() {
    ok_ = false;
    bytes_ = {};
    return 0;
  }

  absl::string_view bytes_;
  bool ok_ = true;
};

// Whether the order of issue, where there is one, has each call once.
bool IssuesEveryCall(const Skeleton& skeleton) {
  if (skeleton.issued.empty()) return true;
  IdVector<GroupId, size_t> calls(skeleton.groups.size(), 0);
  for (GroupId group : skeleton.issued) {
    if (!calls.Has(group)) return false;
    ++calls[group];
  }
  for (GroupId group : calls.ids()) {
    if (calls[group] != skeleton.calls[group].size()) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<Skeleton> SkeletonOf(const Program& program) {
  ASSIGN_OR_RETURN(const HappensBefore order, HappensBefore::Build(program));
  const size_t groups = program.groups.size();
  Skeleton skeleton{.groups = program.groups,
                    .calls = IdVector<GroupId, std::vector<Skeleton::Call>>(groups),
                    .before = IdVector<GroupId, std::vector<int32_t>>(groups),
                    .issued = {}};
  // For each group, its lane, and of each of its calls the position on that lane.
  IdVector<GroupId, LaneId> lane_of(groups);
  IdVector<GroupId, std::vector<int>> positions(groups);
  for (OpId id : program.ops.ids()) {
    const Op& op = program.ops[id];
    if (op.group < 0) continue;
    lane_of[op.group] = op.lane;
    positions[op.group].push_back(order.position(id));
    skeleton.calls[op.group].push_back({ChecksumOf(program, op), id});
  }
  for (GroupId group : skeleton.groups.ids()) {
    for (size_t call = 0; call < skeleton.calls[group].size(); ++call) {
      const int* clock = order.clock(skeleton.calls[group][call].op);
      for (GroupId other : skeleton.groups.ids()) {
        const std::vector<int>& at = positions[other];
        const int passed = at.empty() ? 0 : clock[lane_of[other].position()];
        const auto count = std::lower_bound(at.begin(), at.end(), passed) - at.begin();
        // An operation counts itself on its own lane.
        skeleton.before[group].push_back(static_cast<int32_t>(count) - (other == group ? 1 : 0));
      }
    }
  }
  return skeleton;
}

std::string Pack(const Skeleton& skeleton) {
  Writer writer;
  writer.Word(kFormat);
  writer.Word(static_cast<int32_t>(skeleton.groups.size()));
  for (GroupId id : skeleton.groups.ids()) {
    writer.Text(skeleton.groups[id].name);
    writer.Word(static_cast<int32_t>(skeleton.groups[id].ranks.size()));
    for (Rank rank : skeleton.groups[id].ranks) writer.Word(rank.value());
  }
  for (GroupId id : skeleton.groups.ids()) {
    writer.Word(static_cast<int32_t>(skeleton.calls[id].size()));
    for (const Skeleton::Call& call : skeleton.calls[id]) {
      writer.Word(static_cast<int32_t>(call.checksum));
      writer.Word(call.op.value());
    }
    for (int32_t count : skeleton.before[id]) writer.Word(count);
  }
  writer.Word(static_cast<int32_t>(skeleton.issued.size()));
  for (GroupId group : skeleton.issued) writer.Word(group.value());
  return writer.Take();
}

absl::StatusOr<Skeleton> Unpack(absl::string_view bytes) {
  Reader reader(bytes);
  Skeleton skeleton;
  const bool known = reader.Word() == kFormat;
  const int32_t groups = known ? reader.Count(2 * sizeof(int32_t)) : 0;
  for (int32_t g = 0; g < groups; ++g) {
    Group group{reader.Text(), {}};
    const int32_t ranks = reader.Count(sizeof(int32_t));
    for (int32_t r = 0; r < ranks; ++r) group.ranks.push_back(Rank::Of(reader.Word()));
    skeleton.groups.push_back(std::move(group));
  }
  for (int32_t g = 0; g < groups && reader.ok(); ++g) {
    const int32_t calls = reader.Count((2 + groups) * sizeof(int32_t));
    std::vector<Skeleton::Call>& of_group = skeleton.calls.emplace_back();
    for (int32_t c = 0; c < calls; ++c) {
      const auto checksum = static_cast<uint32_t>(reader.Word());
      of_group.push_back({checksum, OpId::Of(reader.Word())});
    }
    std::vector<int32_t>& before = skeleton.before.emplace_back();
    for (int32_t i = 0; i < calls * groups; ++i) before.push_back(reader.Word());
  }
  const int32_t issued = known ? reader.Count(sizeof(int32_t)) : 0;
  for (int32_t i = 0; i < issued; ++i) skeleton.issued.push_back(GroupId::Of(reader.Word()));
  if (known && reader.done() && IssuesEveryCall(skeleton)) return skeleton;
  return absl::InvalidArgumentError(absl::StrCat("skeleton of ", bytes.size(), " bytes: found ",
                                                 known ? "another length" : "another format",
                                                 ", expected that of this build"));
}

}  // namespace stretto
