// SPDX-License-Identifier: Apache-2.0

// The config file, the commands that write it, and which cluster is talked to.
#include "coordinator/cli/client/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "coordinator/cli/base/local_cluster.h"
#include "tests/coordinator/cli/fake_coordinator.h"

namespace stretto::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kConfig[] =
    "contexts:\n"
    "  lab: {coordinator: \"lab-1:7070\", tls: {ca: certs/ca.pem, certificate: /c.pem, key: "
    "/k.pem}}\n"
    "  laptop:\n"
    "    coordinator: \"127.0.0.1:7071\"\n"
    "current_context: lab\n";

TEST(ConfigTest, ReadsContexts) {
  const auto config = ParseConfig(kConfig, "c.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(ContextNames(*config), testing::ElementsAre("lab", "laptop"));
  EXPECT_EQ(config->current_context(), "lab");
  EXPECT_EQ(config->contexts().at("lab").tls().key(), "/k.pem");
  EXPECT_EQ(ParseConfig("", "c.yaml")->contexts_size(), 0);
  EXPECT_EQ(ParseConfig(" \n", "c.yaml")->contexts_size(), 0);
}

struct Fault {
  const char* text;
  const char* place;  // and field
  std::vector<std::string> facts;
};

TEST(ConfigTest, FaultsHaveTheirPlaceAndTheNearestName) {
  GoldenMessages golden("stretto");
  const Fault faults[] = {
      {"context:\n  a: {coordinator: \"b:1\"}\n", "c.yaml:1:1: ", {"\"context\"", "\"contexts\""}},
      {"contexts:\n  a: {coordnator: \"b:1\"}\n",
       "c.yaml:2:7: contexts[a]: ",
       {"\"coordnator\"", "\"coordinator\""}},
      {"contexts:\n  a: {coordinator: \"b:1\", tls: {kex: k}}\n",
       "c.yaml:2:33: contexts[a].tls: ",
       {"\"kex\"", "\"key\""}},
      {"contexts:\n  a: {tls: {key: k}}\n",
       "c.yaml:2:3: contexts[a]: ",
       {"coordinator", "HOST:PORT"}},
      {"contexts:\n  a: {coordinator: \"b:1\"}\n  a: {coordinator: \"c:1\"}\n",
       "c.yaml:3:3: contexts.a: ",
       {"line 2"}},
      {"contexts: [a]\n", "c.yaml:1:11: contexts: ", {"found a list"}},
      {"contexts:\n  a: {coordinator: 7070}\n",
       "c.yaml:2:20: contexts[a].coordinator: ",
       {"found 7070", "string"}},
      {"contexts:\n  a: {coordinator: \"b:1,c\"}\n",
       "c.yaml:2:20: contexts[a].coordinator: ",
       {"found \"c\"", "separated by commas"}},
      {"current_context: &a b\n", "c.yaml:1:18: ", {"found an anchor"}},
      {"current_context: a\n---\nb: c\n", "c.yaml:2:1: ", {"second document"}},
      {"# only words\n", "c.yaml:1:1: ", {"found nothing"}},
  };
  for (const Fault& fault : faults) {
    const auto config = ParseConfig(fault.text, "c.yaml");
    ASSERT_FALSE(config.ok()) << fault.text;
    EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(config.status().message()), StartsWith(fault.place));
    golden.Add(std::string(config.status().message()), fault.facts);
  }
}

// A home with kConfig in it.
class ChooseTest : public testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/stretto-config-XXXXXX";
    home_ = mkdtemp(pattern);
    golden_.Hide(home_, "HOME");
    variables_["XDG_CONFIG_HOME"] = home_;
    const auto config = ParseConfig(kConfig, "c.yaml");
    ASSERT_TRUE(config.ok());
    ASSERT_TRUE(WriteConfig(path(), *config).ok());
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  std::string path() const { return home_ + "/stretto/config.yaml"; }
  absl::StatusOr<Cluster> Choose(const ClusterFlags& flags) {
    return ChooseCluster(flags, [this](const std::string& name) { return variables_[name]; });
  }
  std::string Address(const ClusterFlags& flags) {
    const auto cluster = Choose(flags);
    return cluster.ok() ? cluster->coordinator : std::string(cluster.status().message());
  }
  void ExpectRefused(const ClusterFlags& flags, const std::vector<std::string>& facts) {
    const auto cluster = Choose(flags);
    ASSERT_FALSE(cluster.ok());
    EXPECT_THAT(std::string(cluster.status().message()), StartsWith(path() + ":"));
    golden_.Add(std::string(cluster.status().message()), facts);
  }

  GoldenMessages golden_{"stretto"};
  std::string home_;
  std::map<std::string, std::string> variables_;
};

TEST_F(ChooseTest, FlagsGoBeforeTheEnvironmentAndThatBeforeTheFile) {
  const ClusterFlags none, context{.context = "laptop"}, address{.cluster = {.coordinator = "f:1"}},
      both{.context = "laptop", .cluster = {.coordinator = "f:1"}};
  EXPECT_EQ(Address(none), "lab-1:7070");
  EXPECT_EQ(Address(context), "127.0.0.1:7071");
  EXPECT_EQ(Address(address), "f:1");
  EXPECT_EQ(Address(both), "f:1");
  variables_["STRETTO_CONTEXT"] = "laptop";
  EXPECT_EQ(Address(none), "127.0.0.1:7071");
  variables_["STRETTO_CONTEXT"] = "lab";
  EXPECT_EQ(Address(context), "127.0.0.1:7071");
  variables_["STRETTO_COORDINATOR"] = "e:1";
  EXPECT_EQ(Address(none), "e:1");
  EXPECT_EQ(Address(context), "127.0.0.1:7071");
  EXPECT_EQ(Address(address), "f:1");
}

TEST_F(ChooseTest, FilesOfAContextBelongToItsClusterAndBeginAtTheConfig) {
  const auto lab = Choose({});
  ASSERT_TRUE(lab.ok());
  EXPECT_EQ(lab->tls.ca, home_ + "/stretto/certs/ca.pem");
  EXPECT_EQ(lab->tls.certificate, "/c.pem");
  EXPECT_EQ(lab->tls.key, "/k.pem");
  // Another cluster by its address has nothing to do with them.
  EXPECT_EQ(Choose({.cluster = {.coordinator = "f:1"}})->tls.key, "");
  variables_["STRETTO_TLS_KEY"] = "/env.pem";
  EXPECT_EQ(Choose({})->tls.key, "/env.pem");
  EXPECT_EQ(Choose({.context = "lab"})->tls.key, "/k.pem");
  EXPECT_EQ(Choose({.context = "lab", .cluster = {.tls = {.key = "/flag.pem"}}})->tls.key,
            "/flag.pem");
  EXPECT_EQ(Choose({.cluster = {.coordinator = "f:1"}})->tls.key, "/env.pem");
}

TEST_F(ChooseTest, ATokenAndACertificateTakeThePlaceOfEachOther) {
  variables_["STRETTO_TOKEN_FILE"] = "/env.token";
  auto lab = Choose({});
  ASSERT_TRUE(lab.ok());
  EXPECT_EQ(lab->tls.ca, home_ + "/stretto/certs/ca.pem");
  EXPECT_EQ(lab->tls.certificate + lab->tls.key, "");
  EXPECT_EQ(lab->tls.token, "/env.token");
  lab = Choose({.cluster = {.tls = {.certificate = "/flag.crt", .key = "/flag.pem"}}});
  EXPECT_EQ(lab->tls.token, "");
  EXPECT_EQ(lab->tls.certificate, "/flag.crt");
  EXPECT_EQ(Choose({.cluster = {.tls = {.token = "/flag.token"}}})->tls.token, "/flag.token");
  EXPECT_EQ(Choose({.context = "lab"})->tls.token, "") << "a context goes before the environment";
  // Both by one source stay both, and are refused where they are checked.
  lab = Choose({.cluster = {.tls = {.key = "/flag.pem", .token = "/flag.token"}}});
  EXPECT_EQ(lab->tls.token + lab->tls.key, "/flag.token/flag.pem");
  std::ofstream(path()) << "contexts:\n  lab: {coordinator: \"lab-1:7070\", tls: {ca: ca.pem, "
                           "token_file: ann.token}}\ncurrent_context: lab\n";
  variables_.erase("STRETTO_TOKEN_FILE");
  EXPECT_EQ(Choose({})->tls.token, home_ + "/stretto/ann.token");
}

TEST_F(ChooseTest, TheCertificatesOfOnesOwnUpNeedNoName) {
  variables_["XDG_STATE_HOME"] = home_ + "/state";
  const std::string state = home_ + "/state/stretto";
  const ClusterFlags here{.cluster = {.coordinator = "localhost:7070"}};
  EXPECT_TRUE(Choose(here)->tls.empty());
  {
    const auto announced = AnnounceLocalCluster(state, 7070, "/c");
    ASSERT_TRUE(announced.ok()) << announced.status();
    EXPECT_EQ(Choose(here)->tls.ca, "/c/ca.crt");
    EXPECT_EQ(Choose(here)->tls.certificate, "/c/user-admin.crt");
    EXPECT_EQ(Choose(here)->tls.key, "/c/user-admin.key");
    EXPECT_EQ(Choose({.cluster = {.coordinator = "127.0.0.1:7070"}})->tls.ca, "/c/ca.crt");
    // Another port, another machine, several of them, or files that somebody names.
    for (const char* other : {"127.0.0.1:7071", "lab-1:7070", "127.0.0.1:7070,127.0.0.1:7071"}) {
      EXPECT_TRUE(Choose({.cluster = {.coordinator = other}})->tls.empty()) << other;
    }
    EXPECT_EQ(Choose({.cluster = {.coordinator = "127.0.0.1:7070", .tls = {.ca = "/x"}}})->tls.key,
              "");
  }
  EXPECT_TRUE(Choose(here)->tls.empty()) << "that cluster was killed";
  WithdrawLocalCluster(state, 7070);
  EXPECT_FALSE(std::filesystem::exists(state + "/local/7070"));
  // A link is not followed.
  std::filesystem::create_symlink("/etc/passwd", state + "/local/7070");
  EXPECT_TRUE(Choose(here)->tls.empty());
  EXPECT_FALSE(AnnounceLocalCluster(state, 7070, "/c").ok());
}

TEST_F(ChooseTest, WithoutAConfigThereIsTheDefault) {
  std::filesystem::remove(path());
  EXPECT_EQ(Address({}), kDefaultCoordinator);
  ExpectRefused({.context = "lab"}, {"\"lab\"", "stretto config set-context"});
  variables_.clear();
  EXPECT_EQ(ConfigPath([](const std::string&) { return ""; }), "");
  EXPECT_EQ(Address({}), kDefaultCoordinator);
  variables_["HOME"] = "/h";
  EXPECT_EQ(ConfigPath([this](const std::string& name) { return variables_[name]; }),
            "/h/.config/stretto/config.yaml");
}

TEST_F(ChooseTest, ABrokenConfigIsAnErrorOnlyWhereItIsNeeded) {
  std::ofstream(path()) << "contexts:\n  lab: 3\n";
  ExpectRefused({}, {":2:8: contexts[lab]: ", "found 3", "coordinator, tls"});
  EXPECT_EQ(Address({.cluster = {.coordinator = "f:1"}}), "f:1");
}

TEST_F(ChooseTest, AnUnknownContextHasItsNearestName) {
  ExpectRefused({.context = "laptob"}, {"\"laptob\"", "\"laptop\""});
  variables_["STRETTO_CONTEXT"] = "somewhere";
  ExpectRefused({}, {"\"somewhere\"", "lab, laptop"});
}

class ConfigCommandsTest : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    variables_["XDG_CONFIG_HOME"] = dir_;
    address_ = absl::StrCat("127.0.0.1:", port_);
  }
  std::string File() const {
    std::ifstream file(dir_ + "/stretto/config.yaml");
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  std::string address_;
};

TEST_F(ConfigCommandsTest, AContextIsMadeChosenUsedAndDeleted) {
  EXPECT_EQ(Run({"config", "get-contexts"}), kOk);
  ExpectMessage({"Next:\n  stretto config set-context"});
  EXPECT_EQ(Run({"config", "set-context", "lab", "--coordinator", address_}), kOk) << err();
  ExpectMessage({"context lab ", "Next:\n  stretto config use-context lab\n"});
  EXPECT_EQ(Run({"config", "set-context", "away", "--coordinator", "127.0.0.1:1"}), kOk);
  EXPECT_EQ(Run({"config", "use-context", "lab"}), kOk);
  ExpectMessage({"lab", address_});
  EXPECT_EQ(File(), absl::StrCat("contexts:\n  away:\n    coordinator: \"127.0.0.1:1\"\n  lab:\n"
                                 "    coordinator: \"",
                                 address_, "\"\ncurrent_context: lab\n"));
  EXPECT_EQ(Run({"config", "get-contexts"}), kOk);
  EXPECT_THAT(out(), testing::ContainsRegex("CURRENT +NAME +COORDINATOR +TLS\n +away +127.0.0.1:1 "
                                            "+no\n\\* +lab +127.0.0.1:[0-9]+ +no\n"));
  EXPECT_EQ(Run({"config", "view"}), kOk);
  EXPECT_EQ(out(), File());
  EXPECT_EQ(Run({"config", "delete-context", "lab"}), kOk);
  ExpectMessage({"context lab ", "current"});
  EXPECT_EQ(Run({"config", "delete-context", "away"}), kOk);
  EXPECT_EQ(File(), "{}\n");
}

TEST_F(ConfigCommandsTest, CommandsTalkToTheContext) {
  ASSERT_EQ(Run({"config", "set-context", "lab", "--coordinator", address_}), kOk);
  ASSERT_EQ(Run({"config", "set-context", "away", "--coordinator", "127.0.0.1:1"}), kOk);
  variables_["STRETTO_COORDINATOR"] = "127.0.0.1:1";
  EXPECT_EQ(Run({"job", "submit", file_, "--context", "lab"}), kOk) << err();
  EXPECT_THAT(err(), HasSubstr("  stretto job watch gpt --context lab\n"));
  EXPECT_EQ(Run({"job", "list", "--context", "away"}), kError);
  EXPECT_THAT(err(), HasSubstr("127.0.0.1:1: "));
  EXPECT_EQ(Run({"job", "list", "--context", "lap"}), kError);
  ExpectMessage({"config.yaml: ", "\"lap\"", "\"lab\""});
}

TEST_F(ConfigCommandsTest, AChangeKeepsTheRest) {
  std::filesystem::create_directories(dir_ + "/stretto");
  std::ofstream(dir_ + "/stretto/config.yaml") << kConfig;
  EXPECT_EQ(Run({"config", "set-context", "lab", "--coordinator", "lab-2:7070"}), kOk);
  ExpectMessage({"context lab "});
  EXPECT_THAT(File(), HasSubstr("  lab:\n    coordinator: \"lab-2:7070\"\n    tls:\n"
                                "      ca: certs/ca.pem\n"));
  EXPECT_EQ(Run({"config", "get-contexts"}), kOk);
  EXPECT_THAT(out(), testing::ContainsRegex("lab-2:7070 +yes\n"));
}

TEST_F(ConfigCommandsTest, AContextHasATokenOrACertificate) {
  std::filesystem::create_directories(dir_ + "/stretto");
  std::ofstream(dir_ + "/stretto/config.yaml") << kConfig;
  EXPECT_EQ(Run({"config", "set-context", "lab", "--token-file", "/ann.token"}), kOk) << err();
  EXPECT_THAT(File(), HasSubstr("      ca: certs/ca.pem\n      token_file: /ann.token\n"));
  EXPECT_THAT(File(), testing::Not(HasSubstr("certificate")));
  EXPECT_EQ(Run({"config", "set-context", "lab", "--tls-certificate", "/c", "--tls-key", "/k"}),
            kOk);
  EXPECT_THAT(File(), HasSubstr("      certificate: /c\n      key: /k\n"));
  EXPECT_THAT(File(), testing::Not(HasSubstr("token_file")));
}

TEST_F(ConfigCommandsTest, WhatCannotBeDoneIsSaid) {
  EXPECT_EQ(Run({"config", "set-context", "My Lab", "--coordinator", "a:1"}), kError);
  ExpectMessage({"error: context name: ", "found \"My Lab\""});
  EXPECT_EQ(Run({"config", "set-context", "lab"}), kError);
  ExpectMessage({"error: context lab: ", "--coordinator HOST:PORT"});
  for (const char* command : {"use-context", "delete-context"}) {
    EXPECT_EQ(Run({"config", command, "nope"}), kError);
    ExpectMessage({"config.yaml: ", "\"nope\""});
  }
  std::filesystem::create_directories(dir_ + "/stretto");
  std::ofstream(dir_ + "/stretto/config.yaml") << "context: {}\n";
  const std::vector<std::vector<std::string>> all = {{"get-contexts"},
                                                     {"view"},
                                                     {"use-context", "a"},
                                                     {"delete-context", "a"},
                                                     {"set-context", "a", "--coordinator", "a:1"}};
  for (std::vector<std::string> command : all) {
    command.insert(command.begin(), "config");
    EXPECT_EQ(Run(command), kError);
    ExpectMessage({"config.yaml:1:1: ", "\"context\""});
  }
  EXPECT_EQ(File(), "context: {}\n");
  variables_["XDG_CONFIG_HOME"] = file_;  // a file where a folder should be
  EXPECT_EQ(Run({"config", "set-context", "lab", "--coordinator", "a:1"}), kError);
  ExpectMessage({"error: ", "job.yaml"});
  variables_["XDG_CONFIG_HOME"] = "";
  EXPECT_EQ(Run({"config", "set-context", "lab", "--coordinator", "a:1"}), kError);
  ExpectMessage({"error: ", "HOME", "XDG_CONFIG_HOME"});
}

}  // namespace
}  // namespace stretto::cli
