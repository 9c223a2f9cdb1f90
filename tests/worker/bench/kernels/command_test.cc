// SPDX-License-Identifier: Apache-2.0
#include "worker/bench/kernels/command.h"

#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/base/files.h"
#include "tests/golden_messages.h"
#include "tests/worker/bench/testing/machines.h"

namespace stretto::bench {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Said {
  int code = 0;
  std::string out, err;
};

const std::vector<std::string> kTiny = {
    "--model",   "gpt-tiny", "--micro-batch",     "1", "--layers",     "1", "--sequence", "16",
    "--repeats", "2",        "--working-set-mib", "1", "--limit-size", "64"};

Said Bench(const std::vector<std::string>& more, const MachineOpener& open) {
  std::vector<std::string> arguments = kTiny;
  arguments.insert(arguments.end(), more.begin(), more.end());
  std::ostringstream out, err;
  const int code = KernelsCommand(arguments, out, err, open);
  return {code, out.str(), err.str()};
}

class KernelsCommandTest : public ::testing::TestWithParam<bool> {
 protected:
  static MachineOpener Opener() { return GetParam() ? EmulatedMachine : OpenMachine; }
};

TEST_P(KernelsCommandTest, HasTimeRateAndShareOfTheLimitOfEveryOperation) {
  const std::string file = ::testing::TempDir() + "/kernels.json";
  const Said said = Bench({"--json", file}, Opener());

  ASSERT_EQ(said.code, 0) << said.err;
  EXPECT_THAT(said.out, HasSubstr("limits: copy "));
  EXPECT_THAT(said.out, HasSubstr("fwd attention attention"));
  const Json json = Json::parse(*ReadFile(file));
  EXPECT_EQ(json["machine"]["device"], GetParam() ? "cuda" : "cpu");
  EXPECT_FALSE(json["machine"]["backend"].get<std::string>().empty());
  EXPECT_EQ(json["copy"]["bytes"], 2 * 64 * 64 * 4);
  EXPECT_GT(json["gemm_share"], 0);
  EXPECT_LT(json["gemm_share"], 1);
  EXPECT_GT(json["kernels"].size(), 20u);
  for (const Json& kernel : json["kernels"]) {
    SCOPED_TRACE(kernel["operation"].get<std::string>());
    const bool product = kernel["flops"] > 0;
    EXPECT_EQ(kernel["limit"], product ? "product" : "copy");
    EXPECT_GT(kernel["seconds"], 0);
    EXPECT_GT(kernel["count"], 0);
    const Json& limit = json[product ? "product" : "copy"];
    const char* rate = product ? "flops_per_second" : "bytes_per_second";
    EXPECT_NEAR(kernel["share_of_limit"].get<double>(),
                kernel[rate].get<double>() / limit[rate].get<double>(), 1e-9);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, KernelsCommandTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "emulated" : "cpu"; });

TEST(KernelsCommandFailureTest, LlamaHasItsOperationsToo) {
  std::ostringstream out, err;
  EXPECT_EQ(KernelsCommand({"--model", "llama-tiny", "--tp", "2", "--micro-batch", "1",
                            "--limit-size", "64", "--working-set-mib", "1", "--only", "swiglu"},
                           out, err, EmulatedMachine),
            0)
      << err.str();
  EXPECT_THAT(out.str(), HasSubstr("fwd act swiglu"));
  EXPECT_THAT(out.str(), HasSubstr("tp 2"));
}

TEST(KernelsCommandFailureTest, AValueThatIsNotFiniteFailsTheRun) {
  const Said said = Bench({}, BrokenMachine());
  EXPECT_EQ(said.code, 1);
  GoldenMessages("stretto-bench").Add(said.err, {"non-finite", " y"});
}

// The limits take four runs and the first three rows six.
TEST(KernelsCommandFailureTest, AnOperationThatFailsIsARowAndTakesBackNone) {
  const std::string file = ::testing::TempDir() + "/failed-kernels.json";
  const Said said = Bench({"--warm-up", "0", "--json", file}, BrokenMachine(10));
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.err, HasSubstr(" operations failed, the first: "));
  EXPECT_THAT(said.out, HasSubstr("  failed  "));
  EXPECT_THAT(said.out, HasSubstr("matrix products: "));
  const Json json = Json::parse(*ReadFile(file));
  ASSERT_GT(json["kernels"].size(), 20u);
  for (size_t i = 0; i < json["kernels"].size(); ++i) {
    const Json& row = json["kernels"][i];
    EXPECT_EQ(row.contains("failed"), i >= 3) << row;
    EXPECT_EQ(row.contains("share_of_limit"), i < 3) << row;
  }
}

// A stream that remembers what it had when it was flushed, as a pipe does when its writer dies.
class Pipe final : public std::stringbuf {
 public:
  std::vector<std::string> flushed;

 private:
  int sync() override {
    flushed.push_back(str());
    return 0;
  }
};

TEST(KernelsCommandTest, EveryRowIsFlushedAsSoonAsItIsMeasured) {
  Pipe pipe;
  std::ostream out(&pipe);
  std::ostringstream err;
  ASSERT_EQ(KernelsCommand(kTiny, out, err, EmulatedMachine), 0) << err.str();
  ASSERT_GT(pipe.flushed.size(), 20u);
  for (size_t i = 1; i < pipe.flushed.size(); ++i) {
    const std::string_view line =
        std::string_view(pipe.flushed[i]).substr(pipe.flushed[i - 1].size());
    EXPECT_EQ(line.find('\n', 1), line.size() - 1) << line;
  }
}

TEST(KernelsCommandFailureTest, WithoutADeviceItSaysWhy) {
  const Said said = Bench({"--device", "cuda", "--device-index", "1000"}, OpenMachine);
  EXPECT_EQ(said.code, 1);
  EXPECT_THAT(said.err, StartsWith("error: "));
}

TEST(KernelsCommandFailureTest, WrongFlagsAreRefusedWithFoundAndExpected) {
  using Words = std::vector<std::string>;
  GoldenMessages golden("stretto-bench");
  for (const auto& [arguments, facts] : std::vector<std::pair<Words, Words>>{
           {{"--device", "tpu"}, {"--device", "'tpu'", "cpu, cuda"}},
           {{"--only", "fugue"}, {"--only", "'fugue'"}},
           {{"--dtype", "f16"}, {"--dtype", "'f16'", "f32, bf16"}},
           {{"--heads", "3"}, {"--heads", "3"}},
           {{"--tempo"}, {"'--tempo'", "`stretto-bench kernels --help`"}}}) {
    const Said said = Bench(arguments, EmulatedMachine);
    EXPECT_EQ(said.code, 2) << said.err;
    golden.Add(said.err, facts);
  }
}

TEST(KernelsCommandTest, HelpIsNotAnError) {
  const Said said = Bench({"--help"}, EmulatedMachine);
  EXPECT_EQ(said.code, 0);
  GoldenMessages("stretto-bench").Add(said.out, {"--working-set-mib", "--device", "Example"});
}

}  // namespace
}  // namespace stretto::bench
