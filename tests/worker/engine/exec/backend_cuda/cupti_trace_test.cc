// SPDX-License-Identifier: Apache-2.0
#include "worker/engine/exec/backend_cuda/cupti_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/worker/engine/exec/backend_cuda/fake_cupti/fake_cupti.h"

namespace stretto::cuda {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr int kKernel = 10, kMemcpy = 1, kMemset = 2, kOverhead = 17;

class CuptiTraceTest : public ::testing::Test {
 protected:
  void SetUp() override { fake_cupti::state() = {}; }
  void TearDown() override {
    trace_.reset();
    EXPECT_EQ(fake_cupti::state().buffers, 0);
    EXPECT_TRUE(fake_cupti::state().enabled.empty()) << "it traces on";
  }

  void Open() {
    auto trace = CuptiTrace::Open(FAKE_CUPTI);
    ASSERT_TRUE(trace.ok()) << trace.status();
    trace_ = *std::move(trace);
  }
  absl::StatusOr<std::vector<DeviceActivity>> Trace(std::vector<fake_cupti::Record> records) {
    Open();
    EXPECT_TRUE(trace_->Start().ok());
    fake_cupti::state().records = std::move(records);
    return trace_->Stop();
  }
  static fake_cupti::Record Kernel(const std::string& name, uint64_t start, uint64_t end) {
    return {.kind = kKernel, .stream = 7, .name = name, .start = start, .end = end};
  }

  std::unique_ptr<CuptiTrace> trace_;
};

TEST_F(CuptiTraceTest, KernelsCopiesAndFillsAreRecordedOverSeveralBuffers) {
  const auto recording = Trace({Kernel("gemm", 10, 20),
                                {.kind = kMemcpy, .stream = 8, .name = "", .start = 1, .end = 2},
                                {.kind = kOverhead},
                                Kernel("norm", 20, 30),
                                {.kind = kMemset, .stream = 9, .name = "", .start = 1, .end = 2}});
  ASSERT_TRUE(recording.ok()) << recording.status();
  std::vector<std::string> found;
  for (const DeviceActivity& activity : *recording)
    found.push_back(activity.name + "@" + std::to_string(activity.stream));
  EXPECT_THAT(found, ::testing::ElementsAre("gemm@7", "memcpy@8", "norm@7", "memset@9"));
}

TEST_F(CuptiTraceTest, TimesAreThoseOfTheHostsClock) {
  Open();
  ASSERT_TRUE(trace_->Start().ok());
  ASSERT_NE(fake_cupti::state().now, nullptr);
  const int64_t begin = NowNanoseconds();
  const uint64_t start = fake_cupti::state().now(), end = start + 7;
  EXPECT_LE(begin, static_cast<int64_t>(start));
  EXPECT_LE(static_cast<int64_t>(start), NowNanoseconds());
  fake_cupti::state().records = {Kernel("gemm", start, end)};
  const auto recording = trace_->Stop();
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_EQ((*recording)[0].at.begin, static_cast<int64_t>(start));
  EXPECT_EQ((*recording)[0].at.end, static_cast<int64_t>(end));
}

TEST_F(CuptiTraceTest, EveryStepIsItsOwn) {
  ASSERT_TRUE(Trace({Kernel("first", 1, 2)}).ok());
  ASSERT_TRUE(trace_->Start().ok());
  fake_cupti::state().records = {Kernel("second", 3, 4)};
  const auto recording = trace_->Stop();
  ASSERT_EQ(recording->size(), 1u);
  EXPECT_EQ((*recording)[0].name, "second");
}

TEST_F(CuptiTraceTest, DroppedRecordsMakeItNoEvidence) {
  fake_cupti::state().dropped = 5;  // before: nobody's
  fake_cupti::state().at_flush = [] { fake_cupti::state().dropped = 3; };
  EXPECT_EQ(Trace({Kernel("gemm", 1, 2)}).status(),
            absl::DataLossError("CUPTI: of a step's records, found 1 whole, 3 dropped, 0 without "
                                "an end and 0 buffers that cannot be read, expected all whole: no "
                                "evidence"));
}

TEST_F(CuptiTraceTest, DropsOfBeforeAreNoMatter) {
  fake_cupti::state().dropped = 5;
  EXPECT_TRUE(Trace({Kernel("gemm", 1, 2)}).ok());
}

TEST_F(CuptiTraceTest, RecordsWithoutAnEndMakeItNoEvidence) {
  EXPECT_THAT(Trace({Kernel("gemm", 1, 2), Kernel("norm", 1, 0)}).status().message(),
              HasSubstr("found 1 whole, 0 dropped, 1 without an end"));
}

TEST_F(CuptiTraceTest, BuffersThatCannotBeReadMakeItNoEvidence) {
  fake_cupti::state().corrupt = true;
  const absl::Status status = Trace({Kernel("gemm", 1, 2)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(status.message(), HasSubstr("found 0 whole, 0 dropped, 0 without an end and 1 buff"));
}

TEST_F(CuptiTraceTest, OneTracesAtATime) {
  Open();
  ASSERT_TRUE(trace_->Start().ok());
  auto second = CuptiTrace::Open(FAKE_CUPTI);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->Start(),
            absl::FailedPreconditionError("CUPTI: another step of this process is being traced"));
  trace_.reset();
  EXPECT_TRUE((*second)->Start().ok()) << "the first has ended";
}

TEST_F(CuptiTraceTest, WithoutStartThereIsNothingToStop) {
  Open();
  EXPECT_EQ(trace_->Stop().status().code(), absl::StatusCode::kFailedPrecondition);
}

// A step that failed was not stopped.
TEST_F(CuptiTraceTest, LateRecordsOfAnAbandonedTraceAreNobodys) {
  Open();
  ASSERT_TRUE(trace_->Start().ok());
  fake_cupti::state().records = {Kernel("late", 1, 2)};
  trace_.reset();
  const auto recording = Trace({});
  ASSERT_TRUE(recording.ok()) << recording.status();
  EXPECT_TRUE(recording->empty());
}

TEST_F(CuptiTraceTest, FailuresOfCuptiAreNamed) {
  for (const auto& [call, what] :
       {std::pair("cuptiActivityEnable", "cannot start"),
        std::pair("cuptiActivityRegisterTimestampCallback", "cannot have our clock")}) {
    Open();
    fake_cupti::state().fails = call;
    EXPECT_EQ(trace_->Start(),
              absl::InternalError(absl::StrCat("CUPTI: ", what, ": CUPTI_ERROR_UNKNOWN")));
    fake_cupti::state().fails = "";
    trace_.reset();
  }
  for (const char* call :
       {"cuptiActivityFlushAll", "cuptiActivityGetNumDroppedRecords", "cuptiActivityDisable"}) {
    Open();
    ASSERT_TRUE(trace_->Start().ok());
    fake_cupti::state().fails = call;
    const auto recording = trace_->Stop();
    fake_cupti::state().fails = "";
    EXPECT_THAT(recording.status().message(), HasSubstr(": CUPTI_ERROR_UNKNOWN")) << call;
    EXPECT_TRUE(Trace({}).ok()) << "after a failure of " << call;
  }
  fake_cupti::state().fails = "cuptiGetStreamIdEx";
  EXPECT_EQ(trace_->IdOf(nullptr).status(),
            absl::InternalError("CUPTI: stream: CUPTI_ERROR_UNKNOWN"));
  fake_cupti::state().fails = "cuptiActivityRegisterCallbacks";
  EXPECT_EQ(CuptiTrace::Open(FAKE_CUPTI).status(),
            absl::InternalError("CUPTI: cannot register for records: CUPTI_ERROR_UNKNOWN"));
}

TEST_F(CuptiTraceTest, MissingLibraryFunctionOrVersionIsNamed) {
  EXPECT_EQ(CuptiTrace::Open("libcupti-of-nobody.so").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(CuptiTrace::Open("libcupti-of-nobody.so").status().message()),
              StartsWith("cannot open CUPTI: libcupti-of-nobody.so"));
  const absl::Status stump = CuptiTrace::Open(CUPTI_STUMP).status();
  EXPECT_EQ(stump.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(stump.message(), HasSubstr("has no function cuptiGetResultString"));
  for (uint32_t version : {28u, 130000u, 140000u}) {
    fake_cupti::state().version = version;
    EXPECT_THAT(
        CuptiTrace::Open(FAKE_CUPTI).status().message(),
        HasSubstr("is version " + std::to_string(version) + ", expected 130001 or a newer"));
  }
  fake_cupti::state().version = 130100;
  EXPECT_TRUE(CuptiTrace::Open(FAKE_CUPTI).ok());
}

}  // namespace
}  // namespace stretto::cuda
