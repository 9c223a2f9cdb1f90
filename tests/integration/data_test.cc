// SPDX-License-Identifier: Apache-2.0

// Bad data is refused before anything trains.

#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "proto/base/files.h"
#include "tests/integration/cluster.h"
#include "tests/worker/data/llmc_file.h"

namespace stretto::integration {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// The offset of the first sequence's length in a .idx file.
constexpr size_t kFirstLength = 34;

class DataTest : public ClusterTest {
 protected:
  DataTest() {
    index_ = ContentOf(Path("data/text.idx"));
    tokens_ = ContentOf(Path("data/text.bin"));
  }
  void WriteData(const std::string& name, const std::string& index, const std::string& tokens) {
    EXPECT_TRUE(WriteFileAtomic(Path("data/" + name + ".idx"), index).ok());
    EXPECT_TRUE(WriteFileAtomic(Path("data/" + name + ".bin"), tokens).ok());
  }
  // A job on this data fails in prepare, with a message of these parts.
  void ExpectRefused(const std::string& name, const std::string& reason,
                     const std::vector<std::string>& parts) {
    const Json job = RunJob({.name = "on-" + name, .data = name}, "failed");
    const Json ended = ConditionOf(job, "Succeeded");
    EXPECT_EQ(ended["reason"], reason);
    for (const std::string& part : parts)
      EXPECT_THAT(ended["message"].get<std::string>(), HasSubstr(part));
    EXPECT_EQ(ConditionOf(job, "Prepared")["reason"], reason);
    EXPECT_EQ(job["first_failure"]["phase"], "prepare");
    for (const Json& condition : job["conditions"]) EXPECT_NE(condition["type"], "Running");
  }

  std::string index_, tokens_;
};

TEST_F(DataTest, BadDataFailsInPrepareNamingFileOffsetFoundAndExpected) {
  StartCluster();
  WriteData("cut-header", index_.substr(0, 20), tokens_);
  ExpectRefused(
      "cut-header", "DataInvalid",
      {"data/cut-header.idx: header at byte 0: found a file of 20 bytes, expected at least 34"});
  WriteData("truncated", index_.substr(0, index_.size() - 10), tokens_);
  ExpectRefused("truncated", "DataInvalid",
                {"data/truncated.idx: ", " at byte ", "found ", "expected "});

  std::string lies = index_;
  const int32_t length = 2'000'000'000;
  std::memcpy(lies.data() + kFirstLength, &length, sizeof(length));
  WriteData("lies", lies, tokens_);
  ExpectRefused(
      "lies", "DataInvalid",
      {"data/lies.idx: pointer of sequence 0 at byte ", "with 2000000000 tokens of 2 bytes",
       absl::StrCat("expected an end within the ", tokens_.size(), " bytes of ")});

  // No sequence, and one document boundary: 0.
  std::string empty = index_.substr(0, 18) + std::string(8, '\0') +
                      std::string("\1\0\0\0\0\0\0\0", 8) + std::string(8, '\0');
  WriteData("empty", empty, "");
  ExpectRefused("empty", "DataInvalid",
                {"data/empty.idx: ", "found 0 tokens", "expected at least 1"});

  std::string strange = tokens_;
  strange.replace(2000, 2, "\xff\xff");
  WriteData("strange", index_, strange);
  ExpectRefused(
      "strange", "DataInvalid",
      {"data/strange.bin: token 1000 at byte 2000: found 65535, expected a token in [0, 257)"});
  ExpectRefused("no-such", "DataInvalid", {"data/no-such.idx"});
}

// Megatron's data and llm.c's, mixed and with an end held out: the same samples on any number of
// ranks, and the next ones after a resume.
TEST_F(DataTest, ABlendIsTheSameOnAllRanksAndGoesOnAtItsSample) {
  StartCluster();
  std::vector<int64_t> tokens;
  for (size_t at = 0; at + 1 < tokens_.size(); at += 2) {
    tokens.push_back(static_cast<unsigned char>(tokens_[at]) |
                     static_cast<unsigned char>(tokens_[at + 1]) << 8);
  }
  const auto half = tokens.begin() + static_cast<ptrdiff_t>(tokens.size() / 2);
  EXPECT_TRUE(WriteFileAtomic(Path("data/web_1.bin"), LlmcFile({tokens.begin(), half})).ok());
  EXPECT_TRUE(WriteFileAtomic(Path("data/web_2.bin"), LlmcFile({half, tokens.end()})).ok());
  const std::string blend =
      "{held_out: 0.1, blend: [{prefix: text, weight: 3}, {prefix: 'llmc:web_*.bin', weight: 1}]}";
  const std::string decay = "optimizer: {decay_steps: 8}\n";
  RunJob({.name = "straight", .steps = 8, .data = blend, .more = decay});
  RunJob({.name = "half", .steps = 4, .data = blend, .more = decay});
  RunJob({.name = "resumed",
          .steps = 8,
          .data = blend,
          .more = decay + "checkpoint: {resume_from: half}\n"});
  RunJob({.name = "alone", .steps = 8, .data = blend, .tp_size = 1, .more = decay});
  const std::vector<Json> straight = Steps("straight"), rest = Steps("resumed"),
                          alone = Steps("alone");
  ASSERT_EQ(straight.size(), 8u);
  ASSERT_EQ(rest.size(), 4u);
  ASSERT_EQ(alone.size(), 8u);
  for (size_t i = 0; i < rest.size(); ++i) {
    EXPECT_EQ(rest[i]["loss"].dump(), straight[i + 4]["loss"].dump()) << i;
  }
  for (size_t i = 0; i < alone.size(); ++i) {  // f32 rounds by 6e-8; other samples differ by 1e-2
    EXPECT_NEAR(alone[i]["loss"].get<double>(), straight[i]["loss"].get<double>(), 1e-4) << i;
  }
  // Another order of the data is another run.
  const Outcome other = Stretto(Submit(
      {.name = "other", .steps = 8, .more = decay + "checkpoint: {resume_from: half}\n"}, {}));
  EXPECT_NE(other.code, 0);
  EXPECT_THAT(other.err, HasSubstr("as in job half"));
  EXPECT_THAT(other.err, HasSubstr("data."));
  const Json none = RunJob({.name = "none", .data = "'llmc:none_*.bin'"}, "failed");
  EXPECT_EQ(ConditionOf(none, "Succeeded")["reason"], "DataInvalid");
  EXPECT_THAT(ConditionOf(none, "Succeeded")["message"].get<std::string>(),
              HasSubstr("llmc:none_*.bin: found no file of that name, expected at least one"));
}

TEST_F(DataTest, PathsOutOfTheDataRootAreRefused) {
  StartCluster();
  const Outcome above = Stretto(Submit({.name = "above", .data = "../text"}, {}));
  EXPECT_EQ(above.code, 1);
  EXPECT_THAT(above.err,
              HasSubstr("above.yaml:3:16: spec.data.prefix: found \"../text\", expected no '..'"));
  // What only the worker can see: a link that leads out.
  fs::create_directory(Path("private"));
  fs::copy_file(Path("data/text.idx"), Path("private/text.idx"));
  fs::copy_file(Path("data/text.bin"), Path("private/text.bin"));
  fs::create_directory_symlink(Path("private"), Path("data/link"));
  const Json job = RunJob({.name = "linked", .data = "link/text"}, "failed");
  EXPECT_THAT(ConditionOf(job, "Succeeded")["message"].get<std::string>(), HasSubstr("link/text"));
  EXPECT_EQ(ConditionOf(job, "Prepared")["status"], "false");
}

}  // namespace
}  // namespace stretto::integration
