// SPDX-License-Identifier: Apache-2.0

// Help of every command, the man page, and messages about words that are almost right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "coordinator/cli/help/man_page.h"
#include "coordinator/cli/local/limited_child.h"
#include "coordinator/cli/other_programs.h"
#include "proto/base/version.h"
#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HelpTest : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    binary_dir_ = STRETTO_BINARY_DIR;  // with stretto-data and stretto-model
  }

  // Names of the commands beneath `command`, read from its help.
  std::vector<std::string> Commands(std::vector<std::string> command) {
    command.insert(command.begin(), "help");
    EXPECT_EQ(Run(command), kOk);
    std::vector<std::string> names;
    bool within = false;
    for (absl::string_view line : absl::StrSplit(out(), '\n')) {
      if (within && line.empty()) break;
      const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (within && line.substr(0, 3) == absl::StrCat("  ", words[0].substr(0, 1))) {
        names.push_back(words[0]);
      }
      within = within || line == "Commands:";
    }
    return names;
  }

  // Calls `visit` for each command with its help.
  void ForEach(
      std::vector<std::string> command,
      const std::function<void(const std::vector<std::string>&, const std::string&)>& visit) {
    const std::vector<std::string> names = Commands(command);
    visit(command, out());
    for (const std::string& name : names) {
      std::vector<std::string> sub = command;
      sub.push_back(name);
      ForEach(sub, visit);
    }
  }
};

TEST_F(HelpTest, EveryCommandHasExamplesOfItselfAndFitsTheTerminal) {
  int count = 0;
  ForEach({}, [&](const std::vector<std::string>& command, const std::string& help) {
    const std::string name = absl::StrJoin(command, " ");
    SCOPED_TRACE(name);
    ++count;
    const std::vector<std::string> parts = absl::StrSplit(help, "\nExamples:\n");
    ASSERT_EQ(parts.size(), 2u);
    const std::vector<std::string> body = absl::StrSplit(parts[1], "\n\n");
    const std::vector<std::string> examples = absl::StrSplit(body[0], '\n', absl::SkipEmpty());
    EXPECT_GE(examples.size(), 2u);
    EXPECT_LE(examples.size(), 3u);
    for (const std::string& example : examples) {
      EXPECT_THAT(example, HasSubstr(name.empty() ? "stretto" : "stretto " + name));
    }
    for (absl::string_view line : absl::StrSplit(help, '\n')) EXPECT_LE(line.size(), 80u) << line;
    EXPECT_THAT(help, HasSubstr(absl::StrCat("Usage: stretto", name.empty() ? "" : " ", name)));
    EXPECT_THAT(help, Not(HasSubstr("__")));  // what is not for people
  });
  EXPECT_GT(count, 20);
}

// What a person has learned from one command holds for all: -o is the format of what is printed,
// and the file that a command writes is -f or --output.
TEST_F(HelpTest, AShortFlagMeansTheSameEverywhere) {
  const std::set<std::string> paths = {"FILE", "DIR", "PATH", "PREFIX", "FOLDER"};
  // Of identity and other input; folders of a cluster; what is written beside the output; and what
  // other programs read, by their names.
  const std::set<std::string> others = {"--tls-ca",     "--tls-certificate", "--tls-key",
                                        "--token-file", "--prompt-file",     "--state-dir",
                                        "--data-root",  "--checkpoint-root", "--root",
                                        "--svg",        "--logits",          "--tensorboard",
                                        "--wandb"};
  std::map<std::string, std::set<std::string>> meanings;
  std::set<std::string> unused = others;
  ForEach({}, [&](const std::vector<std::string>& command, const std::string& help) {
    SCOPED_TRACE(absl::StrJoin(command, " "));
    for (absl::string_view line : absl::StrSplit(help, '\n')) {
      if (!absl::StartsWith(line, "  -")) continue;
      std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      std::string letter;
      if (absl::EndsWith(words[0], ",")) {
        letter = words[0].substr(0, 2);
        words.erase(words.begin());
        meanings[letter].insert(words[0]);
      }
      if (words.size() < 2 || paths.count(words[1]) == 0) continue;
      unused.erase(words[0]);
      if (words[0] == "--output") {
        EXPECT_EQ(letter, "-f") << line;
      } else {
        EXPECT_THAT(others, Contains(words[0])) << line;
      }
    }
  });
  EXPECT_THAT(unused, ElementsAre());
  EXPECT_THAT(meanings["-o"], ElementsAre("--format"));
  EXPECT_THAT(meanings["-f"], ElementsAre("--follow", "--output"));
  meanings.erase("-f");
  for (const auto& [letter, flags] : meanings) EXPECT_EQ(flags.size(), 1u) << letter;
}

TEST_F(HelpTest, TheCommandHelpPrintsTheSame) {
  ForEach({}, [&](const std::vector<std::string>& command, const std::string& help) {
    for (const OtherProgram& other : kOtherPrograms) {
      if (!command.empty() && command[0] == other.command) return;  // they print it themselves
    }
    std::vector<std::string> words = command;
    words.emplace_back("--help");
    EXPECT_EQ(Run(words), kOk);
    EXPECT_EQ(out(), help);
  });
  EXPECT_EQ(Run({"help", "job", "sbmit"}), kUsage);
  ExpectMessage({"error: ", "\"sbmit\"", "\"submit\""});
  EXPECT_EQ(Run({"help", "job", "submit", "more"}), kUsage);
  ExpectMessage({"error: ", "\"job submit more\""});
}

TEST_F(HelpTest, SeparateProgramsAreInTheSameTree) {
  for (const OtherProgram& other : kOtherPrograms) {
    ASSERT_EQ(Run({"help", other.command}), kOk);
    EXPECT_THAT(out(), StartsWith(absl::StrCat(other.help, "\n\nUsage: stretto ", other.command)));
    EXPECT_THAT(out(), Not(HasSubstr("Global flags")));  // they take none
  }
  EXPECT_EQ(Run({"help", "data", "prepare"}), kOk);
  EXPECT_THAT(out(), HasSubstr("Usage: stretto data prepare [FLAGS] PATH...\n"));
  EXPECT_THAT(out(), HasSubstr("\n  -f, --output PREFIX "));
  EXPECT_EQ(Run({"help", "checkpoint", "exprt"}), kUsage);
  ExpectMessage({"\"exprt\"", "\"export\""});
}

// The program itself, which `stretto data prepare --help` runs.
TEST_F(HelpTest, SeparateProgramsPrintTheSameHelp) {
  for (const auto& [program, words] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"stretto-data", {"data", "prepare"}},
           {"stretto-data", {"data"}},
           {"stretto-model", {"checkpoint", "export"}},
           {"stretto-model", {"sample"}}}) {
    std::vector<std::string> command = {absl::StrCat(STRETTO_BINARY_DIR, "/", program)};
    command.insert(command.end(), words.begin() + (program == "stretto-data" ? 1 : 0), words.end());
    command.emplace_back("--help");
    const auto printed = RunLimited(command, "", {}, interrupt_);
    ASSERT_TRUE(printed.ok()) << printed.status();
    std::vector<std::string> help = words;
    help.insert(help.begin(), "help");
    ASSERT_EQ(Run(help), kOk);
    EXPECT_EQ(*printed, out());
  }
}

TEST_F(HelpTest, AProgramThatIsMissingIsStillACommand) {
  binary_dir_ = "";
  EXPECT_EQ(Run({"help", "data"}), kOk);
  EXPECT_THAT(out(), StartsWith("Prepare and inspect training data\n"));
  EXPECT_EQ(Run({"__complete", "data", ""}), kOk);
  EXPECT_EQ(err(), "");
}

TEST_F(HelpTest, StrettoAlonePrintsHelp) {
  ASSERT_EQ(Run({"--help"}), kOk);
  const std::string help = out();
  EXPECT_EQ(Run({}), kOk);
  EXPECT_EQ(out(), help);
  EXPECT_EQ(err(), "");
}

TEST_F(HelpTest, VersionIsAFlagToo) {
  EXPECT_EQ(Run({"--version"}), kOk);
  EXPECT_EQ(out(), std::string("stretto ") + kBuildVersion + "\n");
}

TEST_F(HelpTest, HelpNamesArgumentsFlagsAndDefaults) {
  EXPECT_EQ(Run({"job", "submit", "--help"}), kOk);
  EXPECT_THAT(out(), StartsWith("Submit a job\n\nUsage: stretto job submit [FLAGS] FILE\n\n"
                                "Arguments:\n  FILE                    job file in YAML or JSON; - "
                                "reads standard input\n\nFlags:\n  --name NAME "));
  EXPECT_THAT(out(), HasSubstr("\nGlobal flags:\n  --coordinator ADDRESS "));
  EXPECT_EQ(Run({"job", "list", "-h"}), kOk);
  EXPECT_THAT(out(), HasSubstr("maximum number of jobs; 0 lists all (default: 50)\n"));
  EXPECT_EQ(Run({"job", "compare", "--help"}), kOk);
  EXPECT_THAT(out(), HasSubstr("Usage: stretto job compare JOB...\n"));
}

// What the Python client alone can write, by the vendors' own libraries, is found from here.
TEST_F(HelpTest, MetricsNameTheFlagsOfThePythonClient) {
  ASSERT_EQ(Run({"job", "metrics", "--help"}), kOk);
  EXPECT_THAT(out(), HasSubstr("\n  --tensorboard FOLDER "));
  EXPECT_THAT(out(), HasSubstr("\n  stretto job metrics gpt --tensorboard runs"));
}

TEST_F(HelpTest, AnUnknownFlagHasItsNearestName) {
  EXPECT_EQ(Run({"job", "list", "--limt", "3"}), kUsage);
  ExpectMessage({"error: ", "\"--limt\"", "\"--limit\""});
  EXPECT_EQ(Run({"job", "list", "--limt=3"}), kUsage);
  ExpectMessage({"error: ", "\"--limt\"", "\"--limit\""});
  EXPECT_EQ(Run({"job", "get", "gpt", "--coordinater", "a:1"}), kUsage);
  ExpectMessage({"error: ", "\"--coordinater\"", "\"--coordinator\""});
  EXPECT_EQ(Run({"job", "get", "--folow"}), kUsage);  // a flag of another command is no help
  ExpectMessage({"error: ", "\"--folow\"", "`stretto job get --help`"});
  EXPECT_EQ(Run({"--no-colour", "job", "list"}), kUsage);
  ExpectMessage({"error: ", "\"--no-colour\"", "\"--no-color\""});
}

TEST_F(HelpTest, AnUnknownWordForAChoiceHasItsNearestName) {
  EXPECT_EQ(Run({"job", "list", "-o", "jsn"}), kUsage);
  ExpectMessage({"error: --format: ", "found \"jsn\"", "table, json, yaml", "\"json\""});
  EXPECT_EQ(Run({"completion", "powershell"}), kUsage);
  ExpectMessage({"error: SHELL: ", "found \"powershell\"", "bash, zsh, fish"});
}

TEST_F(HelpTest, NothingIsColouredWithoutATerminal) {
  jobs_.jobs = {MakeJob("gpt", Job::SUCCEEDED)};
  const std::vector<std::vector<std::string>> commands = {{"job", "list"},
                                                          {"job", "get", "gpt"},
                                                          {"job", "describe", "gpt"},
                                                          {"job", "watch", "gpt"},
                                                          {"worker", "list"},
                                                          {"worker", "get", "worker-1"},
                                                          {"--help"},
                                                          {"version"},
                                                          {"fly"},
                                                          {"job", "submit", file_, "--follow"},
                                                          {"job", "curve", "gpt"},
                                                          {"config", "view"}};
  for (const std::vector<std::string>& command : commands) {
    Run(command);
    EXPECT_THAT(out() + err(), Not(HasSubstr("\x1b"))) << absl::StrJoin(command, " ");
  }
}

TEST_F(HelpTest, TheManPageNamesEveryCommandAndIsTheSameEverywhere) {
  ASSERT_EQ(Run({"__man"}), kOk);
  const std::string page = out();
  EXPECT_THAT(page, StartsWith(".\\\" Written by `stretto __man`.\n.TH STRETTO 1 "));
  ForEach({}, [&](const std::vector<std::string>& command, const std::string& help) {
    if (absl::StrContains(help, "\nCommands:\n")) return;
    const std::string name = absl::StrCat("\n.SS \"stretto ", absl::StrJoin(command, " "));
    EXPECT_THAT(page, HasSubstr(absl::StrReplaceAll(name, {{"-", "\\-"}})));
  });
  variables_["HOME"] = "/home/builder";
  ASSERT_EQ(Run({"__man"}), kOk);
  EXPECT_EQ(out(), page);
}

TEST(ManPageTest, TextIsNoCommandOfRoff) {
  const CommandInfo root{.name = "stretto",
                         .path = "stretto",
                         .help = ".so /etc/passwd",
                         .examples = {"'x", "a\\b -c"}};
  EXPECT_THAT(ManPage(root, "1"), HasSubstr("\n\\&.so /etc/passwd\n"));
  EXPECT_THAT(ManPage(root, "1"), HasSubstr("\n\\&'x\na\\eb \\-c\n"));
}

TEST_F(HelpTest, GroffHasNothingToSayAboutTheManPage) {
  if (std::system("command -v groff >/dev/null 2>&1") != 0) GTEST_SKIP() << "no groff here";
  ASSERT_EQ(Run({"__man"}), kOk);
  const std::string file = dir_ + "/stretto.1";
  std::ofstream(file) << out();
  FILE* pipe = popen(("groff -man -Tascii -ww -z " + file + " 2>&1").c_str(), "r");
  std::string said;
  char buffer[256];
  while (fgets(buffer, sizeof buffer, pipe) != nullptr) said += buffer;
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(said, "");
}

}  // namespace
}  // namespace stretto::cli
