// SPDX-License-Identifier: Apache-2.0
#include "worker/sample/utf8.h"

#include <gtest/gtest.h>

namespace stretto {
namespace {

struct Taken {
  std::string text, left;
  bool operator==(const Taken&) const = default;
};
void PrintTo(const Taken& taken, std::ostream* out) {
  *out << testing::PrintToString(taken.text) << " and " << testing::PrintToString(taken.left);
}

Taken Take(std::string bytes, bool all) {
  std::string text = TakeUtf8(&bytes, all);
  return {text, bytes};
}

TEST(TakeUtf8Test, WholeCharactersComeAtOnce) {
  for (const char* text : {"", "plain", "h\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80\n",
                           "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_EQ(Take(text, false), (Taken{text, ""}));
  }
}

TEST(TakeUtf8Test, HalfACharacterWaitsForTheRest) {
  EXPECT_EQ(Take("a\xC3", false), (Taken{"a", "\xC3"}));
  EXPECT_EQ(Take("a\xE2\x82", false), (Taken{"a", "\xE2\x82"}));
  EXPECT_EQ(Take("\xF0\x9F\x98", false), (Taken{"", "\xF0\x9F\x98"}));
  EXPECT_EQ(Take("a\xE2\x82", true), (Taken{"a\xEF\xBF\xBD", ""}));
}

TEST(TakeUtf8Test, WhatIsNoUtf8IsReplaced) {
  const std::string r = kReplacement;
  EXPECT_EQ(Take("a\xFFz", false), (Taken{"a" + r + "z", ""}));
  EXPECT_EQ(Take("\x80\xBF", false), (Taken{r + r, ""}));
  EXPECT_EQ(Take("\xE2\x82z", false), (Taken{r + "z", ""}));
  EXPECT_EQ(Take("\xC0\x80", false), (Taken{r + r, ""}));                  // overlong
  EXPECT_EQ(Take("\xE0\x80\x80", false), (Taken{r + r + r, ""}));          // overlong
  EXPECT_EQ(Take("\xED\xA0\x80", false), (Taken{r + r + r, ""}));          // a surrogate
  EXPECT_EQ(Take("\xF4\x90\x80\x80", false), (Taken{r + r + r + r, ""}));  // above U+10FFFF
  EXPECT_EQ(Take("\xF0\x80\x80\x80", false), (Taken{r + r + r + r, ""}));
  EXPECT_EQ(Take("\xED\xA0", false), (Taken{r + r, ""}));  // nothing could make it whole
}

TEST(TakeUtf8Test, ByteByByteGivesTheSame) {
  const std::string bytes = "x\xE2\x82\xAC\xFF\xF0\x9F\x98\x80\xE2\x28\xC3\xA9\xF0\x9F";
  std::string left, text;
  for (const char byte : bytes) {
    left += byte;
    text += TakeUtf8(&left, false);
  }
  text += TakeUtf8(&left, true);
  EXPECT_EQ(Take(bytes, true), (Taken{text, ""}));
}

}  // namespace
}  // namespace stretto
