// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/schedule/tails/parts.h"

#include <algorithm>
#include <iterator>

#include "worker/engine/layout/layout.h"

namespace stretto {
namespace {

bool IsReduction(const Op& op) { return op.group == kTpGroup; }

// `end` is behind the last collective of a layer.
Parts PartsUpTo(OpList::const_iterator end, const OpList& ops) {
  auto opening = ops.begin();
  auto head = std::find_if(ops.begin(), end, IsReduction);
  if (head->kind == OpKind::kAllGather) {
    opening = head + 1;
    head = std::find_if(opening, end, IsReduction);
  }
  if (head != end) {
    const Tag tag = head->tag;  // all slices of the embedding, all pieces of a product
    head = std::find_if(head, end, [&](const Op& op) {
      return op.tag.name != tag.name || op.tag.phase != tag.phase;
    });
  }
  const auto product = std::find_if(
      std::make_reverse_iterator(end), std::make_reverse_iterator(head),
      [](const Op& op) { return op.kind == OpKind::kGemm || op.kind == OpKind::kGemmDgrad; });
  const auto last = product.base() == head ? head : product.base() - 1;
  return {.opening = {ops.begin(), opening},
          .head = {opening, head},
          .body = {head, last},
          .last = {last, end},
          .tail = {end, ops.end()}};
}

Parts PartsOfOne(const OpList& ops) {
  const auto end = std::find_if(ops.rbegin(), ops.rend(), [](const Op& op) {
                     return IsReduction(op) && op.tag.layer >= 0;
                   }).base();
  if (end == ops.begin()) return {.opening = {}, .head = {}, .body = ops, .last = {}, .tail = {}};
  return PartsUpTo(end, ops);
}

}  // namespace

std::vector<Parts> PartsOf(const Unit& unit) {
  std::vector<OpList> roles(1);  // a unit of delayed weight gradients may be empty
  for (const Op& op : unit.ops) {
    if (op.tag.micro_batch >= std::ssize(roles)) roles.emplace_back();
    roles.back().push_back(op);
  }
  std::vector<Parts> parts;
  for (const OpList& ops : roles) parts.push_back(PartsOfOne(ops));
  return parts;
}

}  // namespace stretto
