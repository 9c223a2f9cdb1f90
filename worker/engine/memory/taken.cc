// SPDX-License-Identifier: Apache-2.0

// Cuts time into windows, so that few lives are compared.
//
// Of two lives that conflict, the one that starts later is in use in part of the window in which it
// starts, and the other is not yet released there. So a life is compared with those that meet the
// window in which it starts, and with those that start in the later windows that it meets. Lives
// that are in use at one moment conflict without a comparison: for a window that a life is in use
// throughout, the addresses of all that are in use in it are known as ranges; for the window in
// which it starts, those of all that are in use throughout.
//
// The windows are the leaves of a segment tree, because a life may meet most of them. A few nodes,
// the parts of a range of windows, have exactly its windows. A life that meets a range is noted at
// the parts, and whoever asks for one window finds it at a node above. A life that starts or is in
// use in a window is noted at the nodes above, and whoever asks for a range finds it at a part.

#include "worker/engine/memory/taken.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <vector>

#include "absl/container/btree_map.h"

namespace stretto {
namespace {

// Addresses, as ranges of which none touches another.
class Ranges {
 public:
  void Add(int64_t begin, int64_t end) {
    auto next = ranges_.upper_bound(begin);
    if (next != ranges_.begin() && std::prev(next)->second >= begin) {
      --next;
      begin = next->first;
    }
    for (; next != ranges_.end() && next->first <= end; next = ranges_.erase(next))
      end = std::max(end, next->second);
    ranges_.emplace_hint(next, begin, end);
  }

  bool empty() const { return ranges_.empty(); }

  // Looks for the lowest gap, from low offsets to high ones.
  class Search {
   public:
    explicit Search(const Ranges* in) : ranges_(&in->ranges_) {}

    // Returns the lowest offset from `offset` on at which `bytes` are free.
    int64_t FreeFrom(int64_t offset, int64_t bytes) {
      if (offset + bytes <= free_until_) return offset;
      auto next = ranges_->upper_bound(offset);
      if (next != ranges_->begin()) offset = std::max(offset, std::prev(next)->second);
      for (; next != ranges_->end() && next->first < offset + bytes; ++next) offset = next->second;
      free_until_ = next == ranges_->end() ? std::numeric_limits<int64_t>::max() : next->first;
      return offset;
    }

   private:
    const absl::btree_map<int64_t, int64_t>* ranges_;
    int64_t free_until_ = 0;  // from the last offset that it returned
  };

 private:
  absl::btree_map<int64_t, int64_t> ranges_;  // begin, end
};

// Buffers that have a place, by its begin.
class Places {
  struct Place {
    int64_t end;
    BufferId buffer;
  };

 public:
  void Add(int64_t begin, int64_t end, BufferId buffer) {
    places_.emplace(begin, Place{end, buffer});
    largest_ = std::max(largest_, end - begin);
  }

  bool empty() const { return places_.empty(); }

  // Looks for the lowest gap, from low offsets to high ones.
  class Search {
   public:
    explicit Search(const Places* in) : places_(*in), next_(in->places_.begin()) {}

    // Returns the lowest offset from `offset` on at which no buffer on `bytes` conflicts.
    template <class Conflicts>
    int64_t FreeFrom(int64_t offset, int64_t bytes, const Conflicts& conflicts) {
      // Those before the next one end before the offset or do not conflict.
      while (next_ != places_.places_.end() && next_->first < offset + bytes) {
        // What begins more than the largest buffer before the offset ends before it.
        if (next_->first <= offset - places_.largest_) {
          next_ = places_.places_.upper_bound(offset - places_.largest_);
          continue;
        }
        const Place& place = next_->second;
        if (place.end > offset && conflicts(place.buffer)) offset = place.end;
        ++next_;
      }
      return offset;
    }

   private:
    const Places& places_;
    absl::btree_multimap<int64_t, Place>::const_iterator next_;
  };

 private:
  absl::btree_multimap<int64_t, Place> places_;
  int64_t largest_ = 0;
};

// A power of two. With more of them, most time goes into noting ranges; with fewer, into comparing.
constexpr int kWindows = 64;

// A node of the tree: node 1 is the root, 2 i and 2 i + 1 are the halves of node i, and
// kWindows + w is window w alone.
struct Node {
  Ranges used;      // of buffers in use at some time in one of these windows
  Places present;   // buffers that meet each of these windows and are not in use throughout
  Places starting;  // buffers that start in one of these windows
};

// Windows from `begin` to before `end`.
struct WindowRange {
  int begin, end;
};

// The windows that a life meets: that in which it starts, those that it is in use throughout, and
// those behind, in the last of which it is released. `used` are those in which it is in use.
struct Presence {
  WindowRange first, throughout, rest, used;
};

}  // namespace

class TakenAddresses::Windows {
 public:
  explicit Windows(const LiveBuffers& live) : times_(live.time + 1) {}

  void Add(const Life& life, int64_t begin, int64_t end, BufferId buffer) {
    const Presence met = PresenceOf(life);
    for (int w = met.throughout.begin; w < met.throughout.end; ++w) throughout_[w].Add(begin, end);
    ForEachOf(met.used, [&](Node& node) { node.used.Add(begin, end); });
    for (const WindowRange& part : {met.first, met.rest})
      ForEachPart(part, [&](Node& node) { node.present.Add(begin, end, buffer); });
    ForEachOf(met.first, [&](Node& node) { node.starting.Add(begin, end, buffer); });
  }

  // Adds the addresses of which some buffer conflicts with a life for certain, and the places of
  // all other buffers that may conflict with it.
  void Find(const Life& life, std::vector<Ranges::Search>* certain,
            std::vector<Places::Search>* possible) {
    const Presence met = PresenceOf(life);
    const auto add = [](const auto& taken, auto* list) {
      if (!taken.empty()) list->emplace_back(&taken);
    };
    add(throughout_[met.first.begin], certain);
    ForEachPart(met.throughout, [&](Node& node) { add(node.used, certain); });
    ForEachOf(met.first, [&](Node& node) { add(node.present, possible); });
    ForEachPart(met.rest, [&](Node& node) { add(node.starting, possible); });
  }

 private:
  int WindowOf(int time) const { return static_cast<int>(int64_t{time} * kWindows / times_); }

  Presence PresenceOf(const Life& life) const {
    const int first = WindowOf(life.start);
    const int rest = std::max(WindowOf(life.end + 1), first + 1);
    return {.first = {first, first + 1},
            .throughout = {first + 1, rest},
            .rest = {rest, WindowOf(life.released) + 1},
            .used = {first, WindowOf(life.end) + 1}};
  }

  // Calls visit(node) for each part of a range.
  template <class Visit>
  void ForEachPart(const WindowRange& windows, const Visit& visit) {
    int begin = windows.begin + kWindows, end = windows.end + kWindows;
    for (; begin < end; begin /= 2, end /= 2) {
      if (begin % 2 == 1) visit(nodes_[begin++]);
      if (end % 2 == 1) visit(nodes_[--end]);
    }
  }

  // Calls visit(node) for each node that has any of these windows.
  template <class Visit>
  void ForEachOf(const WindowRange& windows, const Visit& visit) {
    int begin = windows.begin + kWindows, last = windows.end - 1 + kWindows;
    for (; last > 0; begin /= 2, last /= 2) {
      for (int node = begin; node <= last; ++node) visit(nodes_[node]);
    }
  }

  const int64_t times_;
  std::array<Ranges, kWindows> throughout_;
  std::array<Node, 2 * kWindows> nodes_;
};

TakenAddresses::TakenAddresses(const LiveBuffers& live)
    : live_(live), windows_(std::make_unique<Windows>(live)), compared_(live.of.size()) {}

TakenAddresses::~TakenAddresses() = default;

void TakenAddresses::Add(BufferId buffer, int64_t begin, int64_t end) {
  for (const Life& life : live_.of[buffer]) windows_->Add(life, begin, end, buffer);
}

int64_t TakenAddresses::LowestGap(BufferId buffer, int64_t bytes) {
  std::vector<Ranges::Search> certain;
  std::vector<Places::Search> possible;
  for (const Life& life : live_.of[buffer]) windows_->Find(life, &certain, &possible);
  // A buffer may be in several lists.
  ++search_;
  const auto conflicts = [&](BufferId other) {
    auto& [search, answer] = compared_[other];
    if (search != search_) {
      search = search_;
      answer = Conflict(live_.of[other], live_.of[buffer]);
    }
    return answer;
  };
  int64_t offset = 0, before;
  do {
    before = offset;
    for (Ranges::Search& ranges : certain) offset = ranges.FreeFrom(offset, bytes);
    if (offset > before) continue;
    for (Places::Search& places : possible) offset = places.FreeFrom(offset, bytes, conflicts);
  } while (offset > before);
  return offset;
}

}  // namespace stretto
