// SPDX-License-Identifier: Apache-2.0
#include "proto/commands/ranges.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>

namespace stretto {
namespace {

// Returns the refusal of `text`; empty if it is accepted.
std::string Refusal(const CLI::Validator& check, std::string text) { return check(text); }

TEST(IntegerTest, SaysTheRangeInWords) {
  EXPECT_EQ(Refusal(Integer(1, 64), "1"), "");
  EXPECT_EQ(Refusal(Integer(1, 64), "64"), "");
  EXPECT_EQ(Refusal(Integer(1, 64), "65"), "found 65, expected an integer from 1 to 64");
  EXPECT_EQ(Refusal(Integer(0, INT32_MAX), "-3"), "found -3, expected an integer of at least 0");
  EXPECT_EQ(Refusal(Integer(0, INT32_MAX), "2147483647"), "");
  EXPECT_EQ(Refusal(Integer(0, INT32_MAX), "2147483648"),
            "found 2147483648, expected an integer of at most 2147483647");
  for (const char* text : {"", "x", "1.5", "1e3", "99999999999999999999"}) {
    EXPECT_EQ(Refusal(Integer(0, INT64_MAX), text),
              "found " + std::string(text) + ", expected an integer of at least 0");
  }
}

TEST(NumberTest, SaysTheRangeInWords) {
  EXPECT_EQ(Refusal(Number(0, 0.5), "0.5"), "");
  EXPECT_EQ(Refusal(Number(0, 0.5), "0.6"), "found 0.6, expected a number from 0 to 0.5");
  for (const char* text : {"x", "nan", "inf"}) {
    EXPECT_EQ(Refusal(Number(1e-9, 1e9, "a number above 0"), text),
              "found " + std::string(text) + ", expected a number above 0");
  }
}

}  // namespace
}  // namespace stretto
