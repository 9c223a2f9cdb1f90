// SPDX-License-Identifier: Apache-2.0
#include "proto/commands/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "proto/commands/choice.h"
#include "proto/commands/read_commands.h"

namespace stretto {
namespace {

using ::testing::HasSubstr;

class ProgramTest : public ::testing::Test {
 protected:
  ProgramTest() {
    app_.require_subcommand(1);
    UseHelpText(&app_, "stretto");
    CLI::App* write = app_.add_subcommand("write", "Write a file");
    write->footer("stretto tool write x -f out\nstretto tool write --help");
    write->add_option("PATH", paths_, "what to read")->required();
    AddOutput(write, &file_, "FILE", "file to write")->required();
    AddFormat(write, &format_);
    write->add_flag("--all", all_, "everything");
    app_.add_subcommand("read", "Read it");
  }

  std::string Printed(const std::string& line) {
    try {
      app_.parse(line);
    } catch (const CLI::ParseError& error) {
      std::ostringstream out, err;
      app_.exit(error, out, err);
      return out.str() + err.str();
    }
    return "";
  }

  CLI::App app_{"A tool", "tool"};
  std::vector<std::string> paths_;
  std::string file_, format_ = "table";
  bool all_ = false;
};

TEST_F(ProgramTest, CommandsAreTheSameAsData) {
  const CommandInfo tree = ReadCommands(app_, "stretto");
  const std::string text = JsonText(CommandsDocument({tree}), false);
  const auto read = ParseCommands(text);
  ASSERT_TRUE(read.ok()) << read.status();
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(JsonText(CommandsDocument(*read), false), text);
  const CommandInfo& write = read->front().commands.at(0);
  EXPECT_EQ(write.path, "stretto tool write");
  EXPECT_EQ(write.examples.size(), 2u);
  EXPECT_EQ(write.flags.at(0).names, (std::vector<std::string>{"-f", "--output"}));
  EXPECT_TRUE(write.flags.at(0).required);
  EXPECT_EQ(write.flags.at(1).value, "table|json|yaml");
  EXPECT_TRUE(write.arguments.at(0).repeats);
  EXPECT_TRUE(read->front().apart);
  EXPECT_FALSE(write.apart);
}

TEST_F(ProgramTest, OtherTextIsRefused) {
  for (const char* text : {"", "hello", "[{\"name\": 3}]", "[{}]"}) {
    EXPECT_THAT(std::string(ParseCommands(text).status().message()), HasSubstr("found no commands"))
        << text;
  }
}

TEST_F(ProgramTest, HelpIsThatOfTheWholeTree) {
  EXPECT_THAT(Printed("write --help"),
              HasSubstr("Write a file\n\nUsage: stretto tool write [FLAGS] PATH...\n"));
  EXPECT_THAT(Printed("--help"), HasSubstr("\nCommands:\n  write "));
}

TEST_F(ProgramTest, AFormatIsOneOfThree) {
  EXPECT_THAT(Printed("write a -f b -o jsn"),
              HasSubstr("--format: found \"jsn\", expected one of: table, json, yaml; did you mean "
                        "\"json\"?"));
  EXPECT_EQ(Printed("write a -f b -o json"), "");
  EXPECT_EQ(FormatOf(format_), OutputFormat::kJson);
}

}  // namespace
}  // namespace stretto
