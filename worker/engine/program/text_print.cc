#include <charconv>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "worker/engine/program/text.h"

namespace stretto {
namespace {

std::string PrintIds(const std::vector<int>& ids) {
  return absl::StrJoin(ids, ",", [](std::string* out, int id) { absl::StrAppend(out, "%", id); });
}

std::string PrintBuffer(const Buffer& buffer, size_t id) {
  std::string line = absl::StrCat("buffer %", id, " ", buffer.name, " ", NameOf(buffer.dtype), " ",
                                  absl::StrJoin(buffer.shape, ","), " ", NameOf(buffer.arena));
  if (buffer.alias >= 0) absl::StrAppend(&line, " alias=%", buffer.alias, "+", buffer.alias_offset);
  if (buffer.offset >= 0) absl::StrAppend(&line, " @", buffer.offset);
  return line;
}

std::string PrintAttribute(const OpInfo& info, const Op& op, size_t i) {
  absl::string_view name = info.attributes[i];
  if (!absl::ConsumePrefix(&name, "~")) return absl::StrCat(name, "=", op.attributes[i]);
  char digits[32];  // the shortest that parse to the same number
  const auto end =
      std::to_chars(std::begin(digits), std::end(digits), RealOf(op.attributes[i])).ptr;
  return absl::StrCat(name, "=", absl::string_view(digits, static_cast<size_t>(end - digits)));
}

}  // namespace

std::string PrintTag(const Tag& tag) {
  std::string text;
  if (tag.layer >= 0) absl::StrAppend(&text, "L", tag.layer, ".");
  absl::StrAppend(&text, tag.name, " ", NameOf(tag.phase));
  if (tag.micro_batch >= 0) absl::StrAppend(&text, " mb", tag.micro_batch);
  if (tag.slice >= 0) absl::StrAppend(&text, " s", tag.slice);
  return text;
}

std::string PrintOp(const Program& program, int index) {
  const Op& op = program.ops.at(static_cast<size_t>(index));
  const OpInfo& info = InfoOf(op.kind);
  std::string line = absl::StrCat(index, " ", program.lanes.at(static_cast<size_t>(op.lane)).name,
                                  " ", info.name, " ", PrintTag(op.tag));
  if (!op.in.empty()) absl::StrAppend(&line, " in=", PrintIds(op.in));
  if (!op.out.empty()) absl::StrAppend(&line, " out=", PrintIds(op.out));
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    if (op.attributes[i] != 0) absl::StrAppend(&line, " ", PrintAttribute(info, op, i));
  }
  if (!op.waits.empty()) absl::StrAppend(&line, " wait=", absl::StrJoin(op.waits, ","));
  return line;
}

std::string Print(const Program& program) {
  std::string text =
      absl::StrCat("program rank=", program.rank, " world=", program.world_size, "\n");
  for (const Group& group : program.groups) {
    absl::StrAppend(&text, "group ", group.name, " ", absl::StrJoin(group.ranks, ","), "\n");
  }
  for (const Lane& lane : program.lanes) {
    absl::StrAppend(&text, "lane ", lane.name);
    if (lane.group >= 0) {
      absl::StrAppend(&text, " ", program.groups.at(static_cast<size_t>(lane.group)).name);
    }
    absl::StrAppend(&text, "\n");
  }
  for (size_t id = 0; id < program.buffers.size(); ++id) {
    absl::StrAppend(&text, PrintBuffer(program.buffers[id], id), "\n");
  }
  for (size_t i = 0; i < program.ops.size(); ++i) {
    absl::StrAppend(&text, PrintOp(program, static_cast<int>(i)), "\n");
  }
  return text;
}

}  // namespace stretto
