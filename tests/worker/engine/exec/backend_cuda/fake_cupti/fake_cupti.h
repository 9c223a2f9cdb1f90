// SPDX-License-Identifier: Apache-2.0
#pragma once
// A libcupti (fake_cupti.cc is built as one) whose records tests make up.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace fake_cupti {

struct Record {
  int kind = 10;  // CUpti_ActivityKind
  uint32_t stream = 0;
  std::string name = {};
  uint64_t start = 0, end = 0;  // on the clock that it was given
};

struct State {
  uint32_t version = 130001;
  uint64_t (*now)() = nullptr;     // the clock that it was given
  std::function<void()> at_flush;  // before it gives records away, if given
  std::vector<Record> records;     // it will give these away at the next flush
  size_t records_in_a_buffer = 2;
  size_t dropped = 0;                       // not told yet
  std::map<const void*, uint32_t> streams;  // their numbers: from 7 on, as they are asked for
  std::string fails;                        // "cuptiX": this call fails
  bool corrupt = false;                     // buffers hold no records
  std::set<int> enabled;                    // kinds
  int buffers = 0;                          // handed out and not given back
};

// The library's.
State& state();

}  // namespace fake_cupti
