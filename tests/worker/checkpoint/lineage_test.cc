// SPDX-License-Identifier: Apache-2.0

// Several runs of one name, strangers in their folder, and checkpoints of other releases.

#include "worker/checkpoint/lineage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/worker/test_files.h"
#include "worker/checkpoint/checkpoint.h"
#include "worker/checkpoint/fence.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr char kOld[] = "aaaaaaaa00000000", kNew[] = "bbbbbbbb00000000";

class LineageTest : public testing::Test {
 protected:
  absl::Status Save(const std::string& run, int64_t epoch, int64_t step, int keep = 0,
                    std::optional<ParentState> parent = std::nullopt) {
    const int32_t value = static_cast<int32_t>(step);
    const auto shard = WriteShard(job_, step, {Epoch(epoch), run}, Rank::Of(0),
                                  {{"w", "I32", {1}, {0}, {1}, &value}});
    if (!shard.ok()) return shard.status();
    TrainingState state;
    state.step = step;
    state.epoch = epoch;
    state.spec_hash = "spec";
    state.job_uid = run;
    state.parent = std::move(parent);
    return Commit(job_, state, {*shard}, keep).status();
  }

  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(job_)) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }
  std::string Own(const std::string& run, int64_t epoch) {
    const auto found = FindOwnNewestValid(job_, {Epoch(epoch), run});
    EXPECT_TRUE(found.ok()) << found.status();
    return found.ok() ? fs::path(found->folder).filename().string() : "";
  }
  void Edit(const std::string& name, const std::string& from, const std::string& to) {
    const std::string path = job_ + "/" + name + "/manifest.json";
    std::string text = Slurp(path);
    ASSERT_NE(text.find(from), std::string::npos) << text;
    Spill(path, text.replace(text.find(from), from.size(), to));
  }

  TestFolder folder_;
  std::string job_ = folder_ / "gpt";
};

// The coordinator lost its state, and a job of the same name begins with epoch 1 again.
TEST_F(LineageTest, ARunNeitherPrunesNorIsFencedOffByAnotherOfItsName) {
  for (int64_t step : {40, 60}) ASSERT_EQ(Save(kOld, 7, step), absl::OkStatus());
  for (int64_t step : {5, 10, 15}) ASSERT_EQ(Save(kNew, 1, step, 1), absl::OkStatus());
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000015", "step-00000040", "step-00000060"));
  EXPECT_EQ(Own(kNew, 2), "step-00000015");
  EXPECT_EQ(Own(kOld, 8), "step-00000060");
  EXPECT_EQ(Own("cccccccc", 9), "");
  EXPECT_EQ(Save(kOld, 6, 70).code(), absl::StatusCode::kAborted);
}

// An attempt that begins, on a folder that need not exist yet.
TEST_F(LineageTest, ARaisedFenceHoldsUntilTheAttemptHasACheckpoint) {
  ASSERT_EQ(RaiseFence(job_, {Epoch(5), kNew}), absl::OkStatus());
  EXPECT_THAT(Names(), ElementsAre("step-00000000.tmp-5-bbbbbbbb"));
  const absl::Status status = Save(kNew, 4, 30);
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("found epoch 5 in step-00000000.tmp-5-bbbbbbbb"));
  EXPECT_EQ(CheckFence(job_, {Epoch(4), kOld}), absl::OkStatus());
  ASSERT_EQ(Save(kNew, 5, 10), absl::OkStatus());
  EXPECT_THAT(Names(), ElementsAre("step-00000010"));
  EXPECT_EQ(CheckFence(job_, {Epoch(4), kNew}).code(), absl::StatusCode::kAborted);

  ASSERT_EQ(RaiseFence(job_, {Epoch(6), kNew}), absl::OkStatus());
  ASSERT_EQ(Save(kNew, 6, 0, 1), absl::OkStatus());  // where the fence is
  EXPECT_THAT(Names(), ElementsAre("step-00000000"));
  Spill(job_ + "/file", "no folder");
  EXPECT_FALSE(RaiseFence(job_ + "/file", {Epoch(7), kNew}).ok());
}

TEST_F(LineageTest, AFenceReadsACheckpointOnceAndSeesThatAnotherTookItsPlace) {
  Fence fence(job_, {Epoch(4), kNew});
  EXPECT_FALSE(absl::IsAborted(fence.Check()));  // there is no folder yet
  ASSERT_EQ(Save(kNew, 4, 10), absl::OkStatus());
  EXPECT_EQ(fence.Check(), absl::OkStatus());
  Edit("step-00000010", "\"epoch\": 4", "\"epoch\": 5");  // which nobody does
  EXPECT_EQ(fence.Check(), absl::OkStatus());
  EXPECT_TRUE(absl::IsAborted(CheckFence(job_, {Epoch(4), kNew})));
  Edit("step-00000010", "\"epoch\": 5", "\"epoch\": 4");
  ASSERT_EQ(Save(kNew, 5, 10), absl::OkStatus());
  EXPECT_THAT(Names(), ElementsAre("step-00000010"));
  EXPECT_TRUE(absl::IsAborted(fence.Check()));
}

TEST_F(LineageTest, ACheckpointOfAnotherRunIsPutAsideAndNotReplaced) {
  ASSERT_EQ(Save(kOld, 7, 60), absl::OkStatus());
  for (int64_t epoch : {1, 2}) ASSERT_EQ(Save(kNew, epoch, 60, 1), absl::OkStatus());
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000060", "step-00000060.of-aaaaaaaa-1"));
  EXPECT_EQ(ReadManifest(job_ + "/step-00000060.of-aaaaaaaa-1")->state.job_uid, kOld);
  EXPECT_EQ(ReadManifest(job_ + "/step-00000060")->state.epoch, 2);
}

TEST_F(LineageTest, WhichOfSeveralRunsIsMeantMustBeClear) {
  ASSERT_EQ(Save(kOld, 7, 60), absl::OkStatus());
  ASSERT_EQ(Save(kNew, 1, 5), absl::OkStatus());
  const absl::Status status = FindNewestValid(job_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "checkpoints in " + job_ +
                ": found those of 2 runs of that name (aaaaaaaa with step-00000060, bbbbbbbb with "
                "step-00000005), expected those of one: name a checkpoint");
  // A run that continued the other one is what the name means now.
  ASSERT_EQ(Save(kNew, 2, 70, 0, ParentState{kOld, 7, 60}), absl::OkStatus());
  EXPECT_EQ(FindNewestValid(job_)->folder, job_ + "/step-00000070");
  // Its own later attempts change nothing about that.
  ASSERT_EQ(Save(kNew, 3, 80, 0, ParentState{kNew, 2, 70}), absl::OkStatus());
  EXPECT_EQ(FindNewestValid(job_)->folder, job_ + "/step-00000080");
}

TEST_F(LineageTest, AnAttemptContinuesWhatAnOlderReleaseWroteForItsRun) {
  ASSERT_EQ(Save("", 3, 20), absl::OkStatus());
  EXPECT_EQ(FindNewestValid(job_)->folder, job_ + "/step-00000020");
  EXPECT_EQ(Own(kNew, 4), "step-00000020");
  EXPECT_EQ(Own(kNew, 3), "");  // of another state of the coordinator
  ASSERT_EQ(Save(kNew, 4, 10), absl::OkStatus());
  EXPECT_EQ(Own(kNew, 5), "step-00000010");
}

TEST_F(LineageTest, StrangersInTheFolderStopNothing) {
  ASSERT_EQ(Save(kNew, 2, 10), absl::OkStatus());
  fs::create_directories(job_ + "/step-00000001.tmp-999999999");
  fs::create_directories(job_ + "/step-00000001.tmp-999999999-cccccccc");
  Spill(job_ + "/step-00000099", "a file");
  EXPECT_EQ(Save(kNew, 2, 20), absl::OkStatus());
  EXPECT_EQ(Own(kNew, 3), "step-00000020");
  EXPECT_EQ(FindNewestValid(job_)->folder, job_ + "/step-00000020");
  EXPECT_TRUE(fs::exists(job_ + "/step-00000099"));
}

TEST_F(LineageTest, ANewerFormatIsRefusedAndNothingIsTouched) {
  for (int64_t step : {10, 20, 30}) ASSERT_EQ(Save(kNew, 1, step), absl::OkStatus());
  Edit("step-00000030", "\"version\": 1", "\"version\": 3");
  Spill(job_ + "/step-00000010/manifest.json", "torn");
  for (const absl::Status& status :
       {FindNewestValid(job_).status(), FindOwnNewestValid(job_, {Epoch(2), kNew}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(
        std::string(status.message()),
        AllOf(HasSubstr("step-00000030/manifest.json: version: found 3, expected at most 2"),
              HasSubstr("a newer release")));
  }
  EXPECT_EQ(Checkpoint::Open(job_ + "/step-00000030").status().code(),
            absl::StatusCode::kFailedPrecondition);
  // Nor does a run of this release overwrite or remove it.
  ASSERT_EQ(Save(kNew, 2, 30, 1), absl::OkStatus());
  EXPECT_THAT(Names(),
              UnorderedElementsAre("step-00000010", "step-00000030", "step-00000030.of-unknown-1"));
}

// If all of a run's checkpoints are bad it must not begin again from nothing.
TEST_F(LineageTest, ARunWhoseCheckpointsAreAllBadIsToldSo) {
  ASSERT_EQ(Save(kNew, 1, 10), absl::OkStatus());
  fs::resize_file(job_ + "/step-00000010/rank-00000.safetensors", 5);
  const absl::Status status = FindOwnNewestValid(job_, {Epoch(2), kNew}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("step-00000010.bad-1: "));
}

TEST_F(LineageTest, AnUnreadableManifestThatMayBeAnothersIsLeft) {
  ASSERT_EQ(Save(kOld, 1, 10), absl::OkStatus());
  Spill(job_ + "/step-00000010/manifest.json", "torn");
  EXPECT_EQ(Own(kNew, 2), "");
  EXPECT_THAT(Names(), ElementsAre("step-00000010"));
}

// An attempt passes over what it cannot read, and renames only what is shown to be its own.
TEST_F(LineageTest, DamagedCheckpointsOfAnotherRunKeepTheirNames) {
  ASSERT_EQ(Save(kNew, 1, 10), absl::OkStatus());
  ASSERT_EQ(Save(kNew, 1, 20), absl::OkStatus());
  // It resumed from ours, so it names our run too.
  ASSERT_EQ(Save(kOld, 1, 30, 0, ParentState{kNew, 1, 20}), absl::OkStatus());
  ASSERT_EQ(Save(kOld, 1, 40), absl::OkStatus());
  for (const char* name : {"step-00000020", "step-00000030"}) Edit(name, "\"seed\": 0", "");
  fs::remove(job_ + "/step-00000040/manifest.json");
  const auto found = FindOwnNewestValid(job_, {Epoch(2), kNew});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->folder, job_ + "/step-00000010");
  EXPECT_EQ(found->bad.size(), 3u);
  EXPECT_THAT(Names(), UnorderedElementsAre("step-00000010", "step-00000020.bad-1", "step-00000030",
                                            "step-00000040"));
  // Nor is one removed that is in the way.
  ASSERT_EQ(Save(kNew, 2, 40, 1), absl::OkStatus());
  EXPECT_THAT(Names(), testing::IsSupersetOf({"step-00000040.of-unknown-1", "step-00000040"}));
}

TEST_F(LineageTest, AFolderThatIsNotThereHasNone) {
  EXPECT_EQ(Own(kNew, 1), "");
  EXPECT_EQ(FindNewestValid(job_).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(LineageTest, NamesOfFoldersComeBack) {
  EXPECT_EQ(TemporaryName(3, 7, kOld), "step-00000003.tmp-7-aaaaaaaa");
  EXPECT_EQ(TemporaryName(3, 7, ""), "step-00000003.tmp-7");
  EXPECT_EQ(AsideName(3, kOld, 2), "step-00000003.of-aaaaaaaa-2");
  const auto temporary = ParseFolderName(TemporaryName(3, 7, kOld));
  ASSERT_TRUE(temporary.has_value());
  EXPECT_EQ(temporary->kind, FolderName::Kind::kTemporary);
  EXPECT_EQ(temporary->suffix, 7);
  EXPECT_EQ(temporary->run, "aaaaaaaa");
  EXPECT_EQ(ParseFolderName(TemporaryName(3, 7, ""))->run, "");
  const auto aside = ParseFolderName(AsideName(3, "", 2));
  ASSERT_TRUE(aside.has_value());
  EXPECT_EQ(aside->kind, FolderName::Kind::kAside);
  EXPECT_EQ(aside->run, "unknown");
  EXPECT_EQ(aside->suffix, 2);
  for (const char* stranger : {"step-00000003.tmp-", "step-00000003.tmp-7-", "step-00000003.tmp-a",
                               "step-00000003.tmp-7-../x", "step-00000003.of-a", "step-3",
                               "step-00000003.of--1", "step-00000003.old"}) {
    EXPECT_FALSE(ParseFolderName(stranger).has_value()) << stranger;
  }
}

}  // namespace
}  // namespace stretto
