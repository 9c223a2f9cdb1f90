// SPDX-License-Identifier: Apache-2.0
#pragma once
// The wording of a program's messages, held in one golden file so that a better sentence is one
// reviewed diff. A test asserts what a message must carry whatever its words (code, reason, field,
// place, the value found); the words themselves are compared with
// tests/golden/messages/PROGRAM.txt, which has the messages of each test under its name:
//
//   CommandsTest.AFileThatDoesNotParseIsNotSent
//   - error: FOLDER/job.yaml:2:1: unknown field "stepz"; did you mean "steps"?
//
// STRETTO_REWRITE=1 rewrites what the tests that run find; tests/tidy/tidy.sh messages names
// entries whose test is gone.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace stretto {

// One per test, as a member of its fixture or at its top: compares when it is destroyed. One
// thread.
class GoldenMessages {
 public:
  explicit GoldenMessages(const std::string& program)
      : path_(absl::StrCat(STRETTO_SOURCE_DIR "/tests/golden/messages/", program, ".txt")) {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    test_ = absl::StrCat(test.test_suite_name(), ".", test.name());
  }
  GoldenMessages(const GoldenMessages&) = delete;
  GoldenMessages& operator=(const GoldenMessages&) = delete;

  // Replaces `text`, which another run does not have (a folder, a port), by `name` from now on.
  void Hide(const std::string& text, const std::string& name) { hidden_.emplace_back(text, name); }

  // `message` must have each of `facts` in it.
  void Add(const std::string& message, const std::vector<std::string>& facts) {
    for (const std::string& fact : facts) EXPECT_THAT(message, testing::HasSubstr(fact));
    EXPECT_FALSE(facts.empty()) << "what must this message carry? " << message;
    std::string text = absl::StrReplaceAll(message, hidden_);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    absl::StrAppend(&found_, "- ", absl::StrReplaceAll(text, {{"\n", "\n  "}}), "\n");
  }

  ~GoldenMessages() {
    if (testing::Test::IsSkipped()) return;
    if (std::getenv("STRETTO_REWRITE") != nullptr) {
      Rewrite();
      return;
    }
    EXPECT_EQ(Read()[test_], found_) << "STRETTO_REWRITE=1 accepts the new wording in " << path_;
  }

 private:
  using Entries = std::map<std::string, std::string>;  // messages by test

  Entries Read() const {
    Entries entries;
    std::ifstream file(path_);
    std::string line, test;
    while (std::getline(file, line)) {
      if (line.empty() || line[0] == '#') continue;
      if (line[0] == '-' || line[0] == ' ') {
        absl::StrAppend(&entries[test], line, "\n");
      } else {
        test = line;
      }
    }
    return entries;
  }

  // Tests run at the same time in processes of their own, so under a lock.
  void Rewrite() const {
    const int folder =
        open(STRETTO_SOURCE_DIR "/tests/golden/messages", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_TRUE(folder >= 0 && flock(folder, LOCK_EX) == 0) << std::strerror(errno);
    Entries entries = Read();
    entries[test_] = found_;
    if (found_.empty()) entries.erase(test_);
    std::ofstream file(path_);
    file << "# Messages of a program by the test that causes them. STRETTO_REWRITE=1 rewrites this "
            "file.\n";
    for (const auto& [test, messages] : entries) file << "\n" << test << "\n" << messages;
    file.close();
    close(folder);
  }

  const std::string path_;
  std::string test_, found_;
  std::vector<std::pair<std::string, std::string>> hidden_;
};

}  // namespace stretto
