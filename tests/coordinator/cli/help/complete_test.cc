// SPDX-License-Identifier: Apache-2.0

// What shells are offered: by the function, through `stretto __complete`, and in real shells.
#include "coordinator/cli/help/complete.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;

class CompleteTest : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    jobs_.jobs = {MakeJob("gpt", Job::RUNNING), MakeJob("llama", Job::RUNNING)};
    variables_["XDG_CONFIG_HOME"] = dir_;
  }

  // Words that are offered after `words`, the last of them as far as it is typed.
  std::vector<std::string> Offered(std::vector<std::string> words) {
    words.insert(words.begin(), "__complete");
    EXPECT_EQ(Run(words), kOk);
    EXPECT_EQ(err(), "");
    std::vector<std::string> offered;
    for (absl::string_view line : absl::StrSplit(out(), '\n', absl::SkipEmpty())) {
      offered.emplace_back(line.substr(0, line.find('\t')));
    }
    return offered;
  }
};

TEST_F(CompleteTest, Commands) {
  EXPECT_THAT(Offered({""}), IsSupersetOf({"up", "job", "worker", "config", "completion", "help"}));
  EXPECT_THAT(Offered({"w"}), ElementsAre("worker"));
  EXPECT_THAT(Offered({"job", "c"}),
              ElementsAre("clone", "cancel", "checkpoint", "curve", "compare"));
  EXPECT_THAT(Offered({"-o", "json", "--no-color", "job", "cur"}), ElementsAre("curve"));
  EXPECT_THAT(Offered({"help", "config", "u"}), ElementsAre("use-context"));
  EXPECT_THAT(Offered({"jib", ""}), IsEmpty());
  EXPECT_THAT(Offered({"__"}), IsEmpty());
  EXPECT_THAT(Offered({}), Contains("job"));
}

TEST_F(CompleteTest, FlagsOfTheCommandAndThoseOfAll) {
  EXPECT_THAT(Offered({"job", "logs", "--"}),
              IsSupersetOf({"--follow", "--rank", "--coordinator", "--format", "--help"}));
  EXPECT_THAT(Offered({"job", "logs", "--r"}), ElementsAre("--rank"));
  EXPECT_THAT(Offered({"job", "list", "--"}), Not(Contains("--rank")));
  EXPECT_THAT(Offered({"job", "logs", "-f", "--fol"}), IsEmpty());  // given already
  EXPECT_THAT(Offered({"job", "logs", "--", "--f"}), IsEmpty());    // no flag any more
}

TEST_F(CompleteTest, Values) {
  EXPECT_THAT(Offered({"-o", ""}), ElementsAre("table", "json", "yaml"));
  EXPECT_THAT(Offered({"job", "list", "--format", "y"}), ElementsAre("yaml"));
  EXPECT_THAT(Offered({"job", "list", "--format=y"}), ElementsAre("--format=yaml"));
  EXPECT_THAT(Offered({"job", "list", "--format", "=", "y"}), ElementsAre("yaml"));
  EXPECT_THAT(Offered({"job", "list", "--format", "="}), ElementsAre("table", "json", "yaml"));
  EXPECT_THAT(Offered({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
  EXPECT_THAT(Offered({"job", "submit", "x"}), ElementsAre(":files"));
  EXPECT_THAT(Offered({"up", "--state-dir", ""}), ElementsAre(":files"));
  EXPECT_THAT(Offered({"job", "submit", "x", ""}), IsEmpty());  // one file is enough
  EXPECT_THAT(Offered({"job", "submit", "--name", ""}), IsEmpty());
}

TEST_F(CompleteTest, NamesAreAskedFor) {
  EXPECT_THAT(Offered({"worker", "get", ""}), ElementsAre("worker-1"));
  // The fake serves one job a page; a shell does not wait for the next.
  EXPECT_THAT(Offered({"job", "watch", ""}), ElementsAre("gpt"));
  EXPECT_THAT(Offered({"job", "watch", "x"}), IsEmpty());
  EXPECT_THAT(Offered({"job", "watch", "gpt", ""}), IsEmpty());
  EXPECT_THAT(Offered({"job", "compare", "a", "b", "g"}), ElementsAre("gpt"));
  ASSERT_EQ(
      Run({"config", "set-context", "lab", "--coordinator", absl::StrCat("127.0.0.1:", port_)}),
      kOk);
  ASSERT_EQ(Run({"config", "set-context", "away", "--coordinator", "127.0.0.1:1"}), kOk);
  EXPECT_THAT(Offered({"config", "use-context", ""}), ElementsAre("away", "lab"));
  EXPECT_THAT(Offered({"--context", "l"}), ElementsAre("lab"));
}

TEST_F(CompleteTest, TheClusterIsTheOneOfTheLine) {
  variables_["STRETTO_COORDINATOR"] = "127.0.0.1:1";
  const std::string address = absl::StrCat("127.0.0.1:", port_);
  EXPECT_THAT(Offered({"job", "get", ""}), IsEmpty());
  EXPECT_THAT(Offered({"--coordinator", address, "job", "get", ""}), ElementsAre("gpt"));
  EXPECT_THAT(Offered({"job", "get", "--coordinator=" + address, ""}), ElementsAre("gpt"));
  // As bash cuts it.
  EXPECT_THAT(
      Offered({"--coordinator", "=", "127.0.0.1", ":", std::to_string(port_), "job", "get", ""}),
      ElementsAre("gpt"));
}

TEST_F(CompleteTest, FailuresAreSilent) {
  StopServer();
  EXPECT_THAT(Offered({"job", "get", ""}), IsEmpty());
  EXPECT_THAT(Offered({"job", "get", "--context", "nope", ""}), IsEmpty());
  std::filesystem::create_directories(dir_ + "/stretto");
  std::ofstream(dir_ + "/stretto/config.yaml") << "broken: [\n";
  EXPECT_THAT(Offered({"config", "use-context", ""}), IsEmpty());
}

// What a shell prints when it runs `script` with the program on its path.
std::string Shell(const std::string& shell, const std::string& script, const std::string& folder,
                  const std::string& address) {
  const std::string file = folder + "/script";
  std::ofstream(file) << script;
  const std::string command =
      absl::StrCat("cd ", folder, " && HOME=", folder, " PATH=", STRETTO_BINARY_DIR, ":$PATH ",
                   "STRETTO_COORDINATOR=", address, " ", shell, " ", file, " 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[256];
  while (fgets(buffer, sizeof buffer, pipe) != nullptr) out += buffer;
  EXPECT_EQ(pclose(pipe), 0) << out;
  return out;
}

bool Missing(const std::string& shell) {
  return std::system(("command -v " + shell + " >/dev/null 2>&1").c_str()) != 0;
}

TEST_F(CompleteTest, CommandsOfSeparatePrograms) {
  binary_dir_ = STRETTO_BINARY_DIR;
  EXPECT_THAT(Offered({"data", ""}), ElementsAre("prepare", "inspect", "batch"));
  EXPECT_THAT(Offered({"checkpoint", "e"}), ElementsAre("export"));
  EXPECT_THAT(Offered({"checkpoint", "export", "m", "--format", ""}), ElementsAre("hf", "llmc"));
  EXPECT_THAT(Offered({"sample", "m", "--to"}), ElementsAre("--tokens", "--top-p", "--tokenizer"));
  EXPECT_THAT(Offered({"sample", "m", "--co"}), IsEmpty());  // no flag of stretto itself
  for (const std::vector<std::string>& files :
       {std::vector<std::string>{"sample", ""}, {"data", "prepare", "--output", ""}}) {
    EXPECT_THAT(Offered(files), ElementsAre(":files"));
  }
}

TEST_F(CompleteTest, BashIsOfferedTheSame) {
  const std::string script =
      "source <(stretto completion bash)\n"
      "complete -p stretto\n"
      "ask() { COMP_WORDS=(stretto \"$@\"); COMP_CWORD=$#; _stretto; echo \"${COMPREPLY[*]}\"; }\n"
      "ask w\n"
      "ask job c\n"
      "ask job list --format = y\n"
      "ask job get ''\n"
      "touch a.yaml\n"
      "ask job submit a.\n"
      "ask data p\n";
  EXPECT_EQ(Shell("bash --norc", script, dir_, absl::StrCat("127.0.0.1:", port_)),
            "complete -F _stretto stretto\n"
            "worker\n"
            "clone cancel checkpoint curve compare\n"
            "yaml\n"
            "gpt\n"
            "a.yaml\n"
            "prepare\n");
}

TEST_F(CompleteTest, ZshIsOfferedTheSame) {
  if (Missing("zsh")) GTEST_SKIP() << "no zsh here";
  // _describe needs zle; what it would be given is what counts.
  const std::string script =
      "autoload -Uz compinit && compinit -D\n"
      "source <(stretto completion zsh)\n"
      "print ${_comps[stretto]}\n"
      "_describe() { print -l -- $replies; }\n"
      "_files() { print files; }\n"
      "ask() { words=(stretto \"$@\"); CURRENT=$#words; _stretto; }\n"
      "ask w\n"
      "ask job ge\n"
      "ask job get ''\n"
      "ask job list --format=y\n"
      "ask job submit ''\n";
  EXPECT_EQ(Shell("zsh -f", script, dir_, absl::StrCat("127.0.0.1:", port_)),
            "_stretto\n"
            "worker:Show the workers of the cluster\n"
            "get:Show a job\n"
            "gpt\n"
            "--format=yaml\n"
            "files\n");
}

TEST_F(CompleteTest, FishIsOfferedTheSame) {
  if (Missing("fish")) GTEST_SKIP() << "no fish here";
  const std::string script =
      "stretto completion fish | source\n"
      "complete -C 'stretto w'\n"
      "complete -C 'stretto job ge'\n"
      "complete -C 'stretto job get '\n"
      "complete -C 'stretto job list -o y'\n"
      "touch a.yaml\n"
      "complete -C 'stretto job submit a.'\n";
  EXPECT_EQ(Shell("fish --no-config", script, dir_, absl::StrCat("127.0.0.1:", port_)),
            "worker\tShow the workers of the cluster\n"
            "get\tShow a job\n"
            "gpt\n"
            "yaml\n"
            "a.yaml\n");
}

}  // namespace
}  // namespace stretto::cli
