// SPDX-License-Identifier: Apache-2.0
#include "worker/checkpoint/project.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/worker/test_files.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class ProjectTest : public testing::Test {
 protected:
  // A checkpoint of a run of its own, as a job of `project` writes it; an earlier release if empty.
  void Save(int64_t step, const std::string& project, const std::string& run) {
    const int32_t value = static_cast<int32_t>(step);
    const auto shard =
        WriteShard(job_, step, {Epoch(1), run}, Rank::Of(0), {{"w", "I32", {1}, {0}, {1}, &value}});
    ASSERT_TRUE(shard.ok()) << shard.status();
    TrainingState state;
    state.step = step;
    state.epoch = 1;
    state.spec_hash = "spec";
    state.job_uid = run;
    std::vector<Attachment> attachments;
    if (!project.empty()) attachments.push_back({kProjectName, ProjectText(project)});
    ASSERT_TRUE(Commit(job_, state, {*shard}, 0, attachments).ok());
  }
  // The name of the newest of a project, or why there is none.
  std::string Newest(const std::string& project) {
    const auto found = FindNewestOfProject(job_, project);
    if (!found.ok()) return std::string(found.status().message());
    return fs::path(found->folder).filename().string();
  }

  TestFolder folder_;
  std::string job_ = folder_ / "gpt";
};

// A name is free again once its job is deleted, also for people of another project.
TEST_F(ProjectTest, RunsOfOtherProjectsAreAsIfTheyWereNotThere) {
  Save(60, "speech", "aaaaaaaa");
  EXPECT_EQ(Newest("speech"), "step-00000060");
  EXPECT_EQ(Newest("text"),
            "checkpoints in " + job_ +
                ": found only some of project speech, expected one of project text");
  EXPECT_EQ(FindNewestOfProject(job_, "text").status().code(),
            absl::StatusCode::kFailedPrecondition);
  Save(5, "text", "bbbbbbbb");
  EXPECT_EQ(Newest("text"), "step-00000005");
  EXPECT_EQ(Newest("speech"), "step-00000060");
  // Who may use both must choose.
  EXPECT_THAT(Newest(""), HasSubstr("found those of 2 runs of that name"));
}

TEST_F(ProjectTest, ACheckpointWithoutAProjectIsOfUseToAll) {
  Save(60, "", "aaaaaaaa");
  for (const char* project : {"speech", "text", ""}) EXPECT_EQ(Newest(project), "step-00000060");
  const Manifest manifest = *ReadManifest(job_ + "/step-00000060");
  EXPECT_EQ(*ProjectOf(job_ + "/step-00000060", manifest), "");
  EXPECT_EQ(CheckProject(job_ + "/step-00000060", manifest, "text"), absl::OkStatus());
}

TEST_F(ProjectTest, ACheckpointThatIsNamedIsOfTheProjectOrRefused) {
  Save(60, "speech", "aaaaaaaa");
  const std::string folder = job_ + "/step-00000060";
  const Manifest manifest = *ReadManifest(folder);
  EXPECT_EQ(*ProjectOf(folder, manifest), "speech");
  EXPECT_EQ(CheckProject(folder, manifest, "speech"), absl::OkStatus());
  EXPECT_EQ(CheckProject(folder, manifest, ""), absl::OkStatus());
  EXPECT_EQ(CheckProject(folder, manifest, "text"),
            absl::FailedPreconditionError(
                folder + ": found a checkpoint of project speech, expected one of project text"));
}

// Nobody can tell whose it is, so it is not used, and says why.
TEST_F(ProjectTest, ADamagedProjectIsAnError) {
  Save(60, "speech", "aaaaaaaa");
  const std::string folder = job_ + "/step-00000060";
  const Manifest manifest = *ReadManifest(folder);
  for (const char* text : {"", "{", "[]", "{}", "{\"project\": 1}", "{\"project\": \"\"}",
                           "{\"project\": \"a\", \"b\": 1}"}) {
    Spill(folder + "/project.json", text);
    for (const absl::Status& status :
         {ProjectOf(folder, manifest).status(), CheckProject(folder, manifest, "speech")}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
      EXPECT_THAT(std::string(status.message()), HasSubstr(folder + "/project.json")) << text;
    }
    EXPECT_THAT(Newest("text"), AllOf(HasSubstr("found no valid one"), HasSubstr("project.json")));
  }
}

}  // namespace
}  // namespace stretto
