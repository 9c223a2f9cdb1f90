// SPDX-License-Identifier: Apache-2.0
#include "proto/base/printable.h"

#include <gtest/gtest.h>

#include <string>

namespace stretto {
namespace {

TEST(PrintableTest, TextOfAnyLanguageIsLeftAsItIs) {
  for (const char* text : {"", "plain", "a\\b \"c\"", "Zürich", "日本語", "🙂", "שלום"}) {
    EXPECT_TRUE(IsPrintable(text)) << text;
    EXPECT_EQ(Escaped(text), text);
    EXPECT_EQ(Printable(text), text);
  }
}

TEST(PrintableTest, WhatATerminalObeysIsNot) {
  const struct {
    std::string text, escaped, printable;
  } cases[] = {
      {"a\x1b[2Jb", "a\\x1b[2Jb", "a?[2Jb"},
      {"a\nb\tc\rd", "a\\nb\\tc\\rd", "a\nb\tc?d"},
      {std::string("a\0b", 3), "a\\x00b", "a?b"},
      {"\x7f", "\\x7f", "?"},
      {"a\xc2\x9b"
       "2Jé",
       "a\\u009b2Jé", "a?2Jé"},  // C1: CSI in one character
      {"\xc2\x80\xc2\x9f\xc2\xa0", "\\u0080\\u009f\xc2\xa0", "??\xc2\xa0"},
      {"\xe2\x80\xaegnp.exe", "\\u202egnp.exe", "?gnp.exe"},  // right to left from here
      {"\xe2\x81\xa6\xe2\x81\xa9", "\\u2066\\u2069", "??"},
      {"\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f", "\\u061c\\u200e\\u200f", "???"},
      {"\xe2\x80\xa8\xe2\x80\xa9", "\\u2028\\u2029", "??"},
      {"\xef\xbb\xbfweave", "\\ufeffweave", "?weave"},
  };
  for (const auto& c : cases) {
    EXPECT_FALSE(IsPrintable(c.text)) << c.escaped;
    EXPECT_EQ(Escaped(c.text), c.escaped);
    EXPECT_EQ(Printable(c.text), c.printable) << c.escaped;
    EXPECT_TRUE(IsPrintable(Escaped(c.text))) << c.escaped;
  }
}

TEST(PrintableTest, BytesThatAreNoTextAreNot) {
  EXPECT_EQ(Escaped("\xff"), "\\xff");
  EXPECT_EQ(Escaped("a\x9b"), "a\\x9b");                           // CSI of eight-bit terminals
  EXPECT_EQ(Escaped("\xc0\x9b"), "\\xc0\\x9b");                    // ESC in an overlong form
  EXPECT_EQ(Escaped("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");           // likewise
  EXPECT_EQ(Escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(Escaped("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(Escaped("\xe2\x80"), "\\xe2\\x80");                    // half a character
  EXPECT_EQ(Escaped("\xe2"
                    "abc"),
            "\\xe2"
            "abc");
  EXPECT_FALSE(IsPrintable("\xff"));
}

TEST(PrefixTest, EndsWithAWholeCharacter) {
  EXPECT_EQ(Prefix("abc", 5), "abc");
  EXPECT_EQ(Prefix("abc", 2), "ab");
  EXPECT_EQ(Prefix("aé", 2), "a");
  EXPECT_EQ(Prefix("a日b", 3), "a");
  EXPECT_EQ(Prefix("a日b", 4), "a日");
  EXPECT_EQ(Prefix("日", 0), "");
}

}  // namespace
}  // namespace stretto
