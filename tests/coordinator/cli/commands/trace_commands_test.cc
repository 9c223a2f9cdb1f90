// SPDX-License-Identifier: Apache-2.0

// `stretto job trace` and `stretto job timeline`.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "nlohmann/json.hpp"
#include "tests/coordinator/cli/fake_coordinator.h"
#include "tests/coordinator/cli/trace/check.h"
#include "tests/coordinator/cli/trace/records.h"

namespace stretto::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using v1alpha1::StreamJobTraceRequest;
using v1alpha1::StreamJobTraceResponse;

// Two ranks that keep steps 1 to 30.
class TraceCommandsTest : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    Job job = MakeTracedJob();
    job.mutable_progress()->set_steps(30);
    jobs_.jobs = {job};
    jobs_.trace = [this](const StreamJobTraceRequest& request, TraceWriter* writer) {
      request_ = request;
      for (int rank : {0, 1}) {
        if (request.has_rank() && request.rank() != rank) continue;
        Write(rank, writer);
      }
      return grpc::Status::OK;
    };
  }

  void Write(int rank, TraceWriter* writer) const {
    StreamJobTraceResponse response;
    response.set_rank(rank);
    *response.mutable_record()->mutable_program() = MakeProgram();
    writer->Write(response);
    for (int64_t step = std::max<int64_t>(request_.first_step(), 1);
         step <= (request_.last_step() == 0 ? 30 : request_.last_step()); ++step) {
      *response.mutable_record()->mutable_step() =
          MakeStep(step, step * 100'000'000 + 1'000 * rank);
      writer->Write(response);
    }
  }

  std::string Slurp(const std::string& path) const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  StreamJobTraceRequest request_;
};

TEST_F(TraceCommandsTest, TraceWritesTheNewestTenSteps) {
  const std::string file = dir_ + "/trace.json";
  EXPECT_EQ(Run({"job", "trace", "gpt", "--output", file}), kOk) << err();
  EXPECT_EQ(request_.name(), "jobs/gpt");
  EXPECT_EQ(request_.first_step(), 21);
  EXPECT_EQ(request_.last_step(), 30);
  EXPECT_FALSE(request_.has_rank());
  ExpectMessage({file + ": ", "10 steps", "2 ranks", "160 operations"});
  EXPECT_EQ(out(), "");
  const nlohmann::json trace = nlohmann::json::parse(Slurp(file));
  EXPECT_THAT(trace_check::Faults(trace), IsEmpty());
  EXPECT_FALSE(std::filesystem::exists(file + ".part"));
}

TEST_F(TraceCommandsTest, TraceTakesARangeOfStepsAndARank) {
  EXPECT_EQ(Run({"job", "trace", "gpt", "--steps", "4:6", "--rank", "1", "--output", "-"}), kOk);
  EXPECT_EQ(request_.first_step(), 4);
  EXPECT_EQ(request_.last_step(), 6);
  EXPECT_EQ(request_.rank(), 1);
  EXPECT_EQ(nlohmann::json::parse(out()).at("otherData").at("job"), "jobs/gpt");
  const std::map<std::string, std::pair<int, int>> ranges = {
      {"7:", {7, 0}}, {":9", {0, 9}}, {"8", {8, 8}}};
  for (const auto& [text, range] : ranges) {
    EXPECT_EQ(Run({"job", "trace", "gpt", "--steps", text, "--output", "-"}), kOk);
    EXPECT_EQ(request_.first_step(), range.first) << text;
    EXPECT_EQ(request_.last_step(), range.second) << text;
  }
  for (const char* text : {"x", ":", "5:4", "0", "1:2:3", "-1:2"}) {
    EXPECT_EQ(Run({"job", "trace", "gpt", absl::StrCat("--steps=", text)}), kError) << text;
    ExpectMessage({"error: --steps: ", absl::StrCat("found ", text, ",")});
  }
}

TEST_F(TraceCommandsTest, AFailedTraceLeavesNoFile) {
  const std::string file = dir_ + "/trace.json";
  jobs_.trace = [this](const StreamJobTraceRequest&, TraceWriter* writer) {
    Write(0, writer);
    return Refusal(grpc::NOT_FOUND, "found steps 1 to 4 kept, expected step 9", "NOT_FOUND");
  };
  EXPECT_EQ(Run({"job", "trace", "gpt", "--output", file}), kError);
  EXPECT_EQ(err(), "error: found steps 1 to 4 kept, expected step 9\n");
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_FALSE(std::filesystem::exists(file + ".part"));
  EXPECT_EQ(Run({"job", "trace", "gpt", "--output", dir_ + "/none/trace.json"}), kError);
  ExpectMessage({"error: ", dir_ + "/none/trace.json.part"});
  EXPECT_EQ(Run({"job", "trace", "nosuch"}), kError);
  EXPECT_EQ(err(), "error: jobs/nosuch does not exist\n");
}

TEST_F(TraceCommandsTest, NonsenseFromTheClusterIsAnErrorAndWarningsAreShown) {
  jobs_.trace = [](const StreamJobTraceRequest&, TraceWriter* writer) {
    StreamJobTraceResponse response;
    response.mutable_record()->set_warning("torn\x1b[31m");
    writer->Write(response);
    *response.mutable_record()->mutable_program() = MakeProgram();
    response.mutable_record()->mutable_program()->mutable_operations(0)->set_lane(9);
    writer->Write(response);
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"job", "timeline", "gpt"}), kError);
  ExpectMessage({"warning: rank 0: torn?[31m\nerror: ", "rank 0: found lane 9,", "2\n"});
}

TEST_F(TraceCommandsTest, TimelineDrawsTheNewestStepAndItsLedger) {
  EXPECT_EQ(Run({"job", "timeline", "gpt"}), kOk) << err();
  EXPECT_EQ(request_.first_step(), 30);
  EXPECT_EQ(request_.last_step(), 30);
  EXPECT_THAT(out(), StartsWith("job gpt step 30: 100.0 ms, domino_row, 2 ranks, overlap 63.9 %\n"
                                "rank 0 compute "));
  EXPECT_THAT(out(),
              HasSubstr("\nms      hiding  alone  exposed  data  ckpt  idle   total  overlap\n"
                        "rank 0   23.00  47.00    13.00  2.00  8.00  7.00  100.00   63.9 %\n"
                        "rank 1   23.00  47.00    13.00  2.00  8.00  7.00  100.00   63.9 %\n"));
}

// Steps of this test wait for a checkpoint, but one.
TEST_F(TraceCommandsTest, TimelineIsOfAPlainStepUnlessOneIsGiven) {
  std::vector<std::pair<int64_t, int64_t>> asked;
  jobs_.trace = [&](const StreamJobTraceRequest& request, TraceWriter* writer) {
    asked.emplace_back(request.first_step(), request.last_step());
    StreamJobTraceResponse response;
    response.set_rank(request.rank());
    *response.mutable_record()->mutable_program() = MakeProgram();
    writer->Write(response);
    for (int64_t step = request.first_step(); step <= request.last_step(); ++step) {
      *response.mutable_record()->mutable_step() = MakeStep(step);
      if (step == 27) response.mutable_record()->mutable_step()->clear_checkpoint_waits();
      writer->Write(response);
    }
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"job", "timeline", "gpt"}), kOk) << err();
  EXPECT_THAT(out(), StartsWith("job gpt step 27: "));
  EXPECT_EQ(Run({"job", "timeline", "gpt", "--step", "29"}), kOk) << err();
  EXPECT_THAT(out(), StartsWith("job gpt step 29: "));
  EXPECT_EQ(asked, (std::vector<std::pair<int64_t, int64_t>>{{21, 30}, {27, 27}, {29, 29}}));
}

TEST_F(TraceCommandsTest, TimelineWritesAPicture) {
  const std::string file = dir_ + "/step.svg";
  EXPECT_EQ(Run({"job", "timeline", "gpt", "--step", "7", "--rank", "1", "--svg", file}), kOk);
  EXPECT_EQ(request_.first_step(), 7);
  EXPECT_EQ(request_.rank(), 1);
  ExpectMessage({file});
  EXPECT_THAT(Slurp(file), StartsWith("<svg xmlns="));
  EXPECT_EQ(Run({"job", "timeline", "gpt", "--svg", dir_ + "/none/step.svg"}), kError);
  ExpectMessage({"error: ", "none/step.svg"});
}

TEST_F(TraceCommandsTest, TimelineInJsonIsTheReports) {
  EXPECT_EQ(Run({"job", "timeline", "gpt", "-o", "json"}), kOk);
  EXPECT_THAT(out(), StartsWith("{\"step\":"));
  const std::string lines = out();
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
}

TEST_F(TraceCommandsTest, WithoutAFinishedStepThereIsNoTimeline) {
  jobs_.jobs[0].mutable_progress()->set_steps(0);
  EXPECT_EQ(Run({"job", "timeline", "gpt"}), kError);
  ExpectMessage({"error: job gpt: ", "step"});
}

}  // namespace
}  // namespace stretto::cli
