// SPDX-License-Identifier: Apache-2.0

// Three passes: the slices of operations by rank, the share of each in which the rank's other side
// was busy too, and the medians by key.

#include "worker/bench/options/trace_costs.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "worker/engine/cost/median.h"
#include "worker/engine/program/op_kind.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::json;

constexpr double kAlone = 0.1;  // of an operation's time, with the other side

struct Slice {
  std::string name;  // "gemm L3.fc2 fwd mb0 s0"
  std::string key;   // of its cost: its shape, if the trace has that
  bool communicates = false;
  double begin = 0, end = 0;  // seconds
};

using Span = std::pair<double, double>;

absl::Status Refused(absl::string_view found) {
  return absl::InvalidArgumentError(
      absl::StrCat("found ", found, ", expected a trace of `stretto job trace`"));
}

// "fwd fc2 gemm" of "L3.fc2 fwd mb0 s0".
std::string KeyOf(absl::string_view kind, absl::string_view label) {
  const std::vector<absl::string_view> words = absl::StrSplit(label, ' ');
  if (words.size() < 2) return "";
  absl::string_view name = words[0];
  const size_t dot = name.find('.');
  int layer;
  const bool has_layer = absl::StartsWith(name, "L") && dot != absl::string_view::npos &&
                         absl::SimpleAtoi(name.substr(1, dot - 1), &layer);
  if (has_layer) name.remove_prefix(dot + 1);
  return absl::StrCat(words[1], " ", name, " ", kind);
}

// Whether an event is an operation of a program whose time is its own.
bool ReadSlice(const Json& event, Slice* slice) {
  if (event.value("ph", "") != "X" || !event.contains("args") ||
      !event.at("args").contains("operation")) {
    return false;
  }
  slice->name = event.at("name").get<std::string>();
  const std::pair<absl::string_view, absl::string_view> words =
      absl::StrSplit(slice->name, absl::MaxSplits(' ', 1));
  const OpInfo* info = FindOp(words.first);
  if (info == nullptr || IsTransfer(info->kind)) return false;
  slice->key = event.at("args").value("shape", "");
  if (slice->key.empty()) slice->key = KeyOf(words.first, words.second);
  slice->communicates = IsCollective(info->kind);
  slice->begin = event.at("ts").get<double>() * 1e-6;
  slice->end = slice->begin + event.at("dur").get<double>() * 1e-6;
  return !slice->key.empty() && slice->end >= slice->begin;
}

// Slices by rank, in order of their begin.
std::map<int, std::vector<Slice>> SlicesOf(const Json& events) {
  std::map<int, std::vector<Slice>> ranks;
  Slice slice;
  for (const Json& event : events) {
    if (ReadSlice(event, &slice)) ranks[event.at("pid").get<int>()].push_back(slice);
  }
  for (auto& [rank, slices] : ranks) {
    std::stable_sort(slices.begin(), slices.end(),
                     [](const Slice& a, const Slice& b) { return a.begin < b.begin; });
  }
  return ranks;
}

// When one side of a rank was busy, in order and apart.
std::vector<Span> BusyOf(const std::vector<Slice>& slices, bool communicates) {
  std::vector<Span> busy;
  for (const Slice& slice : slices) {
    if (slice.communicates != communicates) continue;
    if (!busy.empty() && slice.begin <= busy.back().second) {
      busy.back().second = std::max(busy.back().second, slice.end);
    } else {
      busy.emplace_back(slice.begin, slice.end);
    }
  }
  return busy;
}

bool RanAlone(const Slice& slice, const std::vector<Span>& busy) {
  auto at = std::lower_bound(busy.begin(), busy.end(), slice.begin,
                             [](const Span& span, double time) { return span.second <= time; });
  double both = 0;
  for (; at != busy.end() && at->first < slice.end; ++at) {
    both += std::min(at->second, slice.end) - std::max(at->first, slice.begin);
  }
  return both <= kAlone * (slice.end - slice.begin);
}

struct Sample {
  std::string key;
  double seconds = 0;
  bool alone = false;
};

// A sample of each computation of each rank, and of each collective of the ranks together.
std::vector<Sample> SamplesOf(const std::map<int, std::vector<Slice>>& ranks) {
  std::vector<Sample> samples;
  std::map<std::pair<std::string, int>, Sample>
      collectives;  // by name and how often it came before
  for (const auto& [rank, slices] : ranks) {
    const std::vector<Span> computes = BusyOf(slices, false), communicates = BusyOf(slices, true);
    std::map<std::string, int> seen;
    for (const Slice& slice : slices) {
      const Sample sample = {slice.key, slice.end - slice.begin,
                             RanAlone(slice, slice.communicates ? computes : communicates)};
      if (!slice.communicates) {
        samples.push_back(sample);
        continue;
      }
      const auto [at, is_new] = collectives.try_emplace({slice.name, seen[slice.name]++}, sample);
      if (!is_new && sample.seconds < at->second.seconds) at->second = sample;
    }
  }
  for (const auto& [name, sample] : collectives) samples.push_back(sample);
  return samples;
}

}  // namespace

absl::StatusOr<CostTable> CostsOfTrace(absl::string_view json) {
  const Json trace = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!trace.is_object() || !trace.contains("traceEvents")) return Refused("no JSON of events");
  std::vector<Sample> samples;
  try {
    samples = SamplesOf(SlicesOf(trace.at("traceEvents")));
  } catch (const Json::exception&) {
    return Refused("an operation whose name, shape, pid, ts or dur is of another type");
  }
  if (samples.empty()) return Refused("no operation");
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> by_key;  // alone, all
  for (const Sample& sample : samples) {
    auto& [alone, all] = by_key[sample.key];
    if (sample.alone) alone.push_back(sample.seconds);
    all.push_back(sample.seconds);
  }
  CostTable table;
  for (const auto& [key, times] : by_key) {
    const auto& [alone, all] = times;
    table.Set(key, MedianOf(alone.empty() ? all : alone));
  }
  return table;
}

}  // namespace stretto::bench
