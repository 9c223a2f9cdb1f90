// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/program/text.h"

#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/engine/program/programs.h"
#include "tests/worker/engine/specs.h"
#include "worker/engine/program/verify.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;

TEST(TextTest, EveryPlanPrintsAndParsesBack) {
  for (const Layout& layout : ManyLayouts()) {
    for (Variant variant : {Variant::kSchedule, Variant::kSerialOracle, Variant::kComputeOnly,
                            Variant::kCommunicationOnly}) {
      SCOPED_TRACE(Describe(layout));
      const std::string text = Print(PlanOf(layout, Rank::Of(layout.tp_size - 1), variant).program);
      const absl::StatusOr<Program> parsed = Parse(text);
      ASSERT_TRUE(parsed.ok()) << parsed.status();
      EXPECT_EQ(Print(*parsed), text);
    }
  }
}

TEST(TextTest, RealAttributesPrintInTheFewestDigits) {
  const std::string text = With(kLinear, "2 compute gelu L0.act fwd mb0 s0 in=%2 out=%3",
                                "2 compute rms_norm L0.act fwd mb0 s0 in=%2,%2 out=%3,%3 "
                                "epsilon=1e-06");
  const Program program = ProgramOf(text);
  EXPECT_EQ(RealOf(program.ops[2].attributes[0]), 1e-6);
  EXPECT_EQ(Print(program), text);
  EXPECT_EQ(Print(ProgramOf(With(text, "=1e-06", "=0.1"))), With(text, "=1e-06", "=0.1"));
  EXPECT_EQ(Print(ProgramOf(With(text, "=1e-06", "=0"))), With(text, " epsilon=1e-06", ""));
  for (const char* bad : {"=-1", "=-0", "=nan", "=inf", "=x", "=1e9", "="}) {
    const absl::StatusOr<Program> parsed = Parse(With(text, "=1e-06", bad));
    EXPECT_THAT(std::string(parsed.status().message()),
                HasSubstr("expected a number in [0, 268435456]"))
        << bad;
  }
}

TEST(TextTest, AParsedProgramVerifiesLikeTheOriginal) {
  const RankPlan plan = PlanOf(Domino({2, 1}, 2));
  EXPECT_TRUE(Verify(ProgramOf(Print(plan.program)), &plan.arenas).ok());
}

TEST(TextTest, BlankLinesAndSpacesAreFree) {
  const std::string spaced = absl::StrCat("\n", With(kLinear, " ", "   "), "\n\n");
  EXPECT_EQ(Print(ProgramOf(spaced)), kLinear);
}

TEST(TextTest, AParameterNameWithDotsIsNoLayer) {
  const Program program = ProgramOf(With(kLinear, "L0.act", "Layers.0.act"));
  EXPECT_EQ(program.ops[2].tag.layer, -1);
  EXPECT_EQ(program.ops[2].tag.name, "Layers.0.act");
}

struct BadText {
  const char* from;
  const char* to;
  const char* message;
};

TEST(TextTest, ErrorsNameTheLineFoundAndExpected) {
  const std::vector<BadText> cases = {
      {"program rank=0 world=2\n", "",
       "line 1: found 'group', expected a first line 'program rank=R world=W'"},
      {"rank=0", "rank=2", "line 1: found '2', expected an integer in [0, 1]"},
      {"rank=0", "rang=0", "line 1: found 'rang=0', expected rank=R"},
      {"world=2", "world=0", "line 1: found '0', expected an integer in [1, 1048576]"},
      {"group tp 0,1\n", "program rank=0 world=2\n", "line 2: found 'program', expected one line"},
      {"group tp 0,1", "group tp", "line 2: found 'group', expected 'group NAME RANK,RANK...'"},
      {"group tp 0,1", "group tp 0,2", "line 2: found '2', expected an integer in [0, 1]"},
      {"lane compute", "lane", "line 3: found 'lane', expected 'lane NAME'"},
      {"lane comm.tp", "lane comm.tp tp", "line 4: found 'lane', expected 'lane NAME'"},
      {"on=tp", "on=dp", "line 10: found 'dp', expected the name of a declared group"},
      {"buffer %0 x f32 4,8 input", "buffer %0 x f32 4,8",
       "line 5: found 'buffer', expected 'buffer %N NAME"},
      {"buffer %0 x", "buffer 0 x", "line 5: found '0', expected a buffer '%N'"},
      {"buffer %1", "buffer %7", "line 6: found '%7', expected %1"},
      {"x f32", "x f16", "line 5: found 'f16', expected f32, bf16 or i32"},
      {"4,8 input", "4,,8 input", "line 5: found '', expected an integer"},
      {"4,8 input", "4,-8 input", "line 5: found '-8', expected an integer"},
      {"4,8 input", "1099511627776,2 input",
       "line 5: found '1099511627776,2', expected a shape of at most"},
      {"4,8 input", "4,8 heap", "line 5: found 'heap', expected parameter, gradient"},
      {"parameter", "parameter alias=%1+0", "line 6: found '1', expected an integer in [0, 0]"},
      {"parameter", "parameter alias=%0", "line 6: found '', expected an integer"},
      {"parameter", "parameter at=0",
       "line 6: found 'at=0', expected 'alias=%N+ELEMENT' or '@OFFSET'"},
      {"parameter", "parameter @-4", "line 6: found '-4', expected an integer"},
      {"0 compute gemm L0.fc fwd mb0", "0 compute gemm fwd",
       "line 9: found 's0', expected fwd, rec, bwd or opt"},
      {"2 compute gelu", "3 compute gelu", "line 11: found '3', expected operation 2"},
      {"0 compute gemm", "0 gpu gemm", "line 9: found 'gpu', expected the name of a declared lane"},
      {"compute gemm", "compute conv", "line 9: found 'conv', expected a known kind of operation"},
      {"in=%0,%1", "in=%0,%9", "line 9: found '9', expected an integer in [0, 3]"},
      {"in=%0,%1", "of=%0,%1", "line 9: found 'of=%0,%1', expected mbN, sN, in=, out="},
      {"wait=1", "wait=x", "line 11: found 'x', expected an integer"},
      {"wait=1", "start=1", "line 11: found 'tart=1', expected an integer"},
      {"gelu L0.act fwd mb0 s0", "gelu L0.act fwd mb0 s0 base=1",
       "line 11: found 'base=1', expected mbN, sN, in=, out=, on=, an attribute"},
      {"gelu L0.act fwd mb0 s0", "embed e fwd start=0 size=999999999999",
       "expected an integer in [0, 268435456]"},
  };
  for (const BadText& bad : cases) {
    const absl::StatusOr<Program> parsed = Parse(With(kLinear, bad.from, bad.to));
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(bad.message));
  }
}

TEST(TextTest, NothingIsNoProgram) {
  EXPECT_THAT(std::string(Parse("\n\n").status().message()),
              HasSubstr("found 'nothing', expected a line 'program"));
}

// Damages words: swaps, copies, deletes and renumbers them, so that many mutants still parse.
std::string Damage(const std::string& text, std::mt19937_64* random) {
  auto below = [&](size_t n) { return static_cast<size_t>((*random)() % n); };
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (size_t count = 1 + below(3); count > 0; --count) {
    std::string& line = lines[below(lines.size())];
    std::vector<std::string> words = absl::StrSplit(line, ' ');
    std::string& word = words[below(words.size())];
    switch (below(6)) {
      case 0:
        std::swap(line, lines[below(lines.size())]);
        continue;
      case 1:
        line = lines[below(lines.size())];
        continue;
      case 2:
        std::swap(word, words[below(words.size())]);
        break;
      case 3:
        word.clear();
        break;
      case 4:
        if (!word.empty()) word[below(word.size())] = static_cast<char>('0' + below(10));
        break;
      case 5:
        if (!word.empty()) word[below(word.size())] = static_cast<char>(below(256));
    }
    line = absl::StrJoin(words, " ");
  }
  return absl::StrJoin(lines, "\n");
}

TEST(TextTest, DamagedTextGivesAStatusAndNeverCrashes) {
  std::mt19937_64 random(20);
  const RankPlan plan = PlanOf(Domino({1, 1}, 2, 1)), peer = PlanOf(Domino({1, 1}, 2, 1), 1);
  const std::string real = Print(plan.program);
  int parsed = 0, verified = 0;
  for (int i = 0; i < 4000; ++i) {
    const absl::StatusOr<Program> program = Parse(Damage(i % 4 == 0 ? kLinear : real, &random));
    if (!program.ok()) {
      EXPECT_TRUE(absl::StartsWith(program.status().message(), "program text line "))
          << program.status();
      continue;
    }
    ++parsed;
    if (!Verify(*program, i % 2 == 0 ? &plan.arenas : nullptr).ok()) continue;
    ++verified;
    (void)VerifyRanks({*program, peer.program});
  }
  EXPECT_GT(parsed, 100);
  EXPECT_GT(verified, 10);
}

}  // namespace
}  // namespace stretto
