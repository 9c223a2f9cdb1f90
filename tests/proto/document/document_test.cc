// SPDX-License-Identifier: Apache-2.0
#include "proto/document/document.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace stretto {
namespace {

Document Sample() {
  return {{"name", "gpt"},
          {"steps", int64_t{1} << 60},
          {"rate", 1e-5},
          {"sizes", {3, 5}},
          {"none", Document::array()},
          {"unknown", nullptr},
          {"ranks", {{{"rank", 0}, {"lost", false}}, Document::object()}},
          {"spec", {{"seed", 18446744073709551615u}}}};
}

TEST(JsonTextTest, OnOneLine) {
  EXPECT_EQ(JsonText(Sample(), false),
            "{\"name\":\"gpt\",\"steps\":1152921504606846976,\"rate\":1.0e-05,\"sizes\":[3,5],"
            "\"none\":[],\"unknown\":null,\"ranks\":[{\"rank\":0,\"lost\":false},{}],"
            "\"spec\":{\"seed\":18446744073709551615}}\n");
}

TEST(JsonTextTest, PrettyHasALineForEachField) {
  EXPECT_EQ(JsonText(Sample(), true),
            "{\n  \"name\": \"gpt\",\n  \"steps\": 1152921504606846976,\n  \"rate\": 1.0e-05,\n"
            "  \"sizes\": [3, 5],\n  \"none\": [],\n  \"unknown\": null,\n  \"ranks\": [\n"
            "    {\n      \"rank\": 0,\n      \"lost\": false\n    },\n    {}\n  ],\n"
            "  \"spec\": {\n    \"seed\": 18446744073709551615\n  }\n}\n");
}

TEST(JsonTextTest, ReadsBackEqual) {
  for (const bool pretty : {false, true}) {
    EXPECT_EQ(Document::parse(JsonText(Sample(), pretty)), Sample());
  }
  EXPECT_EQ(JsonText(3.5, true), "3.5\n");
}

TEST(JsonTextTest, NumbersThatAreNotFiniteAreText) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Document list = {std::numeric_limits<double>::quiet_NaN(), infinity, -infinity};
  EXPECT_EQ(JsonText(list, false), "[\"NaN\",\"Infinity\",\"-Infinity\"]\n");
  EXPECT_EQ(YamlText(list), "[.nan, .inf, -.inf]\n");
}

TEST(YamlTextTest, HasTheSameFields) {
  EXPECT_EQ(YamlText(Sample()),
            "name: gpt\nsteps: 1152921504606846976\nrate: 1.0e-05\nsizes: [3, 5]\nnone: []\n"
            "unknown: null\nranks:\n- rank: 0\n  lost: false\n- {}\nspec:\n"
            "  seed: 18446744073709551615\n");
  EXPECT_EQ(YamlText(Document::object()), "{}\n");
}

// Of YAML 1.1 and 1.2.
TEST(YamlTextTest, QuotesWhatAReaderWouldNotTakeForText) {
  for (const char* text : {"true", "No", "on", "~", "null", "12", "1e5", "0x1F", "2024-01-01",
                           "1:30", "-", "", " a", "a: b", "a#", "- a", "d/", ".inf", "1.5s"}) {
    const std::string yaml = YamlText({{"text", text}});
    EXPECT_EQ(yaml, std::string("text: \"") + text + "\"\n");
  }
  for (const char* text : {"gpt", "step-00000100", "jobs/gpt", "/srv/data", "bf16", "nothing"}) {
    EXPECT_EQ(YamlText({{"text", text}}), std::string("text: ") + text + "\n");
  }
}

TEST(YamlTextTest, TextOfSeveralLinesIsABlock) {
  EXPECT_EQ(YamlText({{"plan", "a\n  b\n"}, {"list", {{{"plan", "c\nd\n"}}}}}),
            "plan: |\n  a\n    b\nlist:\n- plan: |\n    c\n    d\n");
  EXPECT_EQ(YamlText({{"text", "a\nb"}}), "text: \"a\\nb\"\n");
}

TEST(TextOfTest, BytesThatAreNotUtf8AreReplaced) {
  const Document broken = {{"text", "a\xff"}};
  EXPECT_EQ(TextOf(broken, OutputFormat::kJson), "{\n  \"text\": \"a\xef\xbf\xbd\"\n}\n");
  EXPECT_EQ(TextOf(broken, OutputFormat::kYaml), "text: \"a\xef\xbf\xbd\"\n");
}

TEST(StreamTextTest, ALineOrADocument) {
  EXPECT_EQ(StreamText({{"step", 1}}, OutputFormat::kJson), "{\"step\":1}\n");
  EXPECT_EQ(StreamText({{"step", 1}}, OutputFormat::kYaml), "---\nstep: 1\n");
}

}  // namespace
}  // namespace stretto
