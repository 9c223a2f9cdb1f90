// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reading what the programs print, and waiting for what they do.

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace stretto::integration {

using Json = nlohmann::json;

// Reads, fails the test when it cannot.
std::string ContentOf(const std::string& path);
// The job's condition of this type; fails the test when there is none.
Json ConditionOf(const Json& job, const std::string& type);
// Expects a number, and returns it.
int64_t Int(const Json& value);
// The steps first..last, each once, in order.
std::vector<int64_t> Range(int64_t first, int64_t last);
std::vector<int64_t> NumbersOf(const std::vector<Json>& steps);
// Expects losses of steps that differ by at most the rounding of another order of sums.
void ExpectNear(const std::vector<double>& found, const std::vector<double>& expected);
// True within the deadline; looks again and again.
bool Eventually(const std::function<bool()>& holds);

}  // namespace stretto::integration
