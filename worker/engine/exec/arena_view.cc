// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/arena_view.h"

#include <cstddef>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "proto/base/check.h"
#include "proto/base/units.h"

namespace stretto {

TensorView ViewOf(const IdVector<BufferId, Buffer>& buffers, BufferId buffer,
                  const ArenaBases& arenas) {
  const Buffer& b = buffers.at(buffer);
  const Root root = RootOf(buffers, buffer);
  const Buffer& memory = buffers[root.buffer];
  STRETTO_CHECK(memory.offset >= 0);
  TensorView view;
  view.data = static_cast<std::byte*>(arenas[memory.arena]) + memory.offset +
              root.element * static_cast<int64_t>(SizeOf(b.dtype));
  view.dtype = b.dtype;
  view.rank = std::ssize(b.shape);
  STRETTO_CHECK(view.rank <= 4);
  for (size_t d = 0; d < b.shape.size(); ++d) view.shape[d] = b.shape[d];
  return view;
}

bool IsHostVisible(const IdVector<BufferId, Buffer>& buffers, BufferId buffer) {
  const Root root = RootOf(buffers, buffer);
  const ArenaClass arena = buffers[root.buffer].arena;
  return arena == ArenaClass::kInput || arena == ArenaClass::kOutput;
}

absl::Status CheckBorrowed(const PerArena<Arena>& borrowed, const ArenaBytes& needed) {
  for (size_t i = 0; i < borrowed.size(); ++i) {
    if (borrowed[i].memory == nullptr || borrowed[i].bytes >= needed[i]) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "the borrowed ", NameOf(static_cast<ArenaClass>(i)), " arena: found ",
        FormatBytes(borrowed[i].bytes), ", expected at least ", FormatBytes(needed[i])));
  }
  return absl::OkStatus();
}

}  // namespace stretto
