// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/values.h"

#include <gtest/gtest.h>

#include <numeric>

#include "proto/base/clock.h"
#include "proto/base/files.h"
#include "tests/integration/process.h"

namespace stretto::integration {

std::string ContentOf(const std::string& path) {
  const auto content = ReadFile(path);
  EXPECT_TRUE(content.ok()) << content.status();
  return content.value_or("");
}

Json ConditionOf(const Json& job, const std::string& type) {
  for (const Json& condition : job.at("conditions")) {
    if (condition.at("type") == type) return condition;
  }
  ADD_FAILURE() << "no condition " << type << " in " << job["conditions"].dump(1);
  return {{"status", ""}, {"reason", ""}, {"message", ""}};
}

int64_t Int(const Json& value) {
  EXPECT_TRUE(value.is_number_integer()) << value;
  return value.is_number_integer() ? value.get<int64_t>() : 0;
}

std::vector<int64_t> Range(int64_t first, int64_t last) {
  std::vector<int64_t> numbers(static_cast<size_t>(last - first + 1));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

std::vector<int64_t> NumbersOf(const std::vector<Json>& steps) {
  std::vector<int64_t> numbers;
  for (const Json& step : steps) numbers.push_back(Int(step["step"]));
  return numbers;
}

void ExpectNear(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t step = 0; step < found.size(); ++step)
    EXPECT_NEAR(found[step], expected[step], 1e-5 * expected[step]) << "step " << step;
}

bool Eventually(const std::function<bool()>& holds) {
  const absl::Duration deadline = Clock::Real().Monotonic() + kDeadline;
  while (!holds()) {
    if (Clock::Real().Monotonic() > deadline) return false;
    Pause();
  }
  return true;
}

}  // namespace stretto::integration
