// SPDX-License-Identifier: Apache-2.0
#pragma once
// What must hold in every Chrome trace that we write.

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace stretto::trace_check {

using Json = nlohmann::json;

// Times are decimals of microseconds; whole nanoseconds compare exactly.
inline int64_t Nanoseconds(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1e3);
}

struct Slice {
  int64_t begin, end;
  std::string name;
};

// By process and track, in the order of the file.
inline std::map<std::pair<int, int>, std::vector<Slice>> Slices(const Json& trace) {
  std::map<std::pair<int, int>, std::vector<Slice>> tracks;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    const int64_t begin = Nanoseconds(event.at("ts"));
    tracks[{event.at("pid"), event.at("tid")}].push_back(
        {begin, begin + Nanoseconds(event.at("dur")), event.at("name")});
  }
  return tracks;
}

inline int Flows(const Json& trace) {
  int flows = 0;
  for (const Json& event : trace.at("traceEvents")) flows += event.at("ph") == "f";
  return flows;
}

// A sentence for each slice that neither lies within its predecessors on the track nor after them,
// and for each flow that has not both ends, does not begin and end on a slice, or leads backwards.
inline std::vector<std::string> Faults(const Json& trace) {
  std::vector<std::string> faults;
  const auto tracks = Slices(trace);
  for (const auto& [track, slices] : tracks) {
    std::vector<Slice> open;
    for (const Slice& slice : slices) {
      while (!open.empty() && open.back().end <= slice.begin) open.pop_back();
      if (!open.empty() && (slice.begin < open.back().begin || slice.end > open.back().end)) {
        faults.push_back(slice.name + " crosses " + open.back().name);
      }
      open.push_back(slice);
    }
  }
  std::map<int64_t, std::vector<const Json*>> flows;
  for (const Json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "s" || event.at("ph") == "f") flows[event.at("id")].push_back(&event);
  }
  const auto on_a_slice = [&tracks](const Json& end) {
    const int64_t time = Nanoseconds(end.at("ts"));
    for (const Slice& slice : tracks.at({end.at("pid"), end.at("tid")})) {
      if (slice.begin <= time && (time < slice.end || slice.begin == slice.end)) return true;
    }
    return false;
  };
  for (const auto& [id, ends] : flows) {
    const std::string name = "flow " + std::to_string(id);
    if (ends.size() != 2 || ends[0]->at("ph") != "s" || ends[1]->at("ph") != "f") {
      faults.push_back(name + " has not one begin and one end");
      continue;
    }
    if (Nanoseconds(ends[0]->at("ts")) > Nanoseconds(ends[1]->at("ts"))) {
      faults.push_back(name + " leads backwards");
    }
    for (const Json* end : ends) {
      if (!on_a_slice(*end)) faults.push_back(name + " ends on no slice");
    }
  }
  return faults;
}

}  // namespace stretto::trace_check
