// SPDX-License-Identifier: Apache-2.0

// Folders that are damaged or lie about themselves.
#include <sys/stat.h>

#include <random>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/exchange/golden_models.h"
#include "tests/worker/mutate.h"
#include "worker/exchange/tensor_folder.h"

namespace stretto {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// A copy of a golden folder, to be damaged.
class HfFolderTest : public testing::Test {
 protected:
  void Copy(const std::string& golden) {
    fs::copy(GoldenModels() + "/" + golden, folder_.path(),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
  std::string Error() {
    const auto opened = OpenModel("hf:" + folder_.path());
    EXPECT_TRUE(absl::IsInvalidArgument(opened.status())) << opened.status();
    return std::string(opened.status().message());
  }
  // Replaces text in a file by as long a text.
  void Replace(const std::string& file, const std::string& from, const std::string& to) {
    const std::string before = Slurp(folder_ / file);
    const std::string after = absl::StrReplaceAll(before, {{from, to}});
    ASSERT_NE(before, after);
    Spill(folder_ / file, after);
  }

  TestFolder folder_;
};

TEST_F(HfFolderTest, TruncatedFileIsRefused) {
  Copy("llama2");
  const std::string whole = Slurp(folder_ / "model.safetensors");
  for (size_t size : {size_t{0}, size_t{7}, size_t{100}, whole.size() - 1}) {
    Spill(folder_ / "model.safetensors", whole.substr(0, size));
    EXPECT_THAT(Error(), HasSubstr(folder_ / "model.safetensors")) << size;
  }
}

// A pipe would keep its reader waiting for ever.
TEST_F(HfFolderTest, PipesAreRefusedWithoutWaiting) {
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
    Copy("llama2");
    fs::remove(folder_ / "model.safetensors.index.json");
    if (std::string(name) == "model.safetensors.index.json") {
      fs::remove(folder_ / "model.safetensors");
    }
    fs::remove(folder_ / name);
    ASSERT_EQ(::mkfifo((folder_ / name).c_str(), 0600), 0);
    EXPECT_THAT(Error(), AllOf(HasSubstr(folder_ / name), HasSubstr("expected a regular file")));
    fs::remove(folder_ / name);
  }
}

TEST_F(HfFolderTest, FilesThatShouldBeSmallAreBounded) {
  Copy("gpt2_sharded");
  fs::resize_file(folder_ / "model.safetensors.index.json", (64 << 20) + 1);
  EXPECT_THAT(Error(), HasSubstr("index.json: found 67108865 bytes, expected at most 67108864"));
  fs::resize_file(folder_ / "config.json", (16 << 20) + 1);
  EXPECT_THAT(Error(), HasSubstr("config.json: found 16777217 bytes, expected at most 16777216"));
}

TEST_F(HfFolderTest, HeaderOf2To60BytesIsRefused) {
  Copy("llama2");
  std::string file = Slurp(folder_ / "model.safetensors");
  const uint64_t length = uint64_t{1} << 60;
  std::memcpy(file.data(), &length, 8);
  Spill(folder_ / "model.safetensors", file);
  EXPECT_THAT(Error(), AllOf(HasSubstr("header length at byte 0: found 1152921504606846976"),
                             HasSubstr("expected at most")));
}

TEST_F(HfFolderTest, OverlappingTensorsAreRefused) {
  Copy("llama2");
  // Two norms of 128 bytes each: the second on top of the first.
  const auto reader = SafetensorsReader::Open(folder_ / "model.safetensors");
  ASSERT_TRUE(reader.ok());
  const std::string file = Slurp(folder_ / "model.safetensors");
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  auto header = nlohmann::json::parse(file.substr(8, length));
  header["model.layers.1.input_layernorm.weight"]["data_offsets"] =
      header["model.layers.0.input_layernorm.weight"]["data_offsets"];
  std::string text = header.dump();
  ASSERT_LE(text.size(), length);
  text.resize(length, ' ');
  Spill(folder_ / "model.safetensors", file.substr(0, 8) + text + file.substr(8 + length));
  EXPECT_THAT(Error(), HasSubstr("without hole or overlap"));
}

TEST_F(HfFolderTest, IndexThatNamesAFileElsewhereIsRefused) {
  for (const char* outside :
       {"../model.safetensors", "/etc/passwd", "a/b.safetensors", "..", "", ".hidden"}) {
    Copy("gpt2_sharded");
    auto index = nlohmann::json::parse(Slurp(folder_ / kHfIndexName));
    index["weight_map"]["transformer.wpe.weight"] = outside;
    Spill(folder_ / kHfIndexName, index.dump());
    EXPECT_THAT(Error(), AllOf(HasSubstr(kHfIndexName),
                               HasSubstr("weight_map.transformer.wpe.weight: found "),
                               HasSubstr("expected the name of a file in the same folder")))
        << outside;
  }
}

TEST_F(HfFolderTest, IndexThatIsNoneIsRefused) {
  Copy("gpt2_sharded");
  for (const char* text :
       {"", "[]", "{}", R"({"weight_map": 3})", R"({"weight_map": {}})",
        R"({"weight_map": {"a": 1}})", R"({"weight_map": {"a": "b", "a": "c"}})"}) {
    Spill(folder_ / kHfIndexName, text);
    EXPECT_THAT(Error(), HasSubstr(kHfIndexName)) << text;
  }
}

TEST_F(HfFolderTest, IndexAndFilesMustAgree) {
  Copy("gpt2_sharded");
  const std::string text = Slurp(folder_ / kHfIndexName);
  auto index = nlohmann::json::parse(text);
  index["weight_map"]["transformer.ghost"] = "model-00001-of-00003.safetensors";
  Spill(folder_ / kHfIndexName, index.dump());
  EXPECT_THAT(Error(), AllOf(HasSubstr("weight_map.transformer.ghost"),
                             HasSubstr("a file that has the tensor")));

  index = nlohmann::json::parse(text);
  index["weight_map"].erase("transformer.ln_f.bias");
  Spill(folder_ / kHfIndexName, index.dump());
  EXPECT_THAT(Error(), AllOf(HasSubstr("tensor transformer.ln_f.bias: found it here"),
                             HasSubstr("expected it in the weight_map of the index")));

  index = nlohmann::json::parse(text);
  index["weight_map"]["transformer.wte.weight"] = "model-00003-of-00003.safetensors";
  ASSERT_NE(index, nlohmann::json::parse(text));
  Spill(folder_ / kHfIndexName, index.dump());
  EXPECT_THAT(Error(), AllOf(HasSubstr("tensor transformer.wte.weight: found it here"),
                             HasSubstr("expected it in model-00003-of-00003.safetensors")));
}

TEST_F(HfFolderTest, MissingFilesAreNamed) {
  for (const char* missing : {"config.json", "model-00002-of-00003.safetensors"}) {
    Copy("gpt2_sharded");
    fs::remove(folder_ / missing);
    const auto opened = OpenModel("hf:" + folder_.path());
    EXPECT_TRUE(absl::IsNotFound(opened.status())) << opened.status();
    EXPECT_THAT(std::string(opened.status().message()), HasSubstr(missing));
  }
  Copy("gpt2_sharded");
  fs::remove(folder_ / kHfIndexName);
  const auto opened = OpenModel("hf:" + folder_.path());
  EXPECT_TRUE(absl::IsNotFound(opened.status())) << opened.status();
  EXPECT_THAT(std::string(opened.status().message()), HasSubstr("model.safetensors"));
}

TEST_F(HfFolderTest, OneFileWinsOverAnIndex) {
  Copy("gpt2_bare");
  Spill(folder_ / kHfIndexName, "not read");
  EXPECT_TRUE(OpenModel("hf:" + folder_.path()).ok());
}

TEST_F(HfFolderTest, LinksOutOfTheFolderAreFollowed) {
  // The cache of the hub is made of them.
  fs::copy(GoldenModels() + "/gpt2_bare/config.json", folder_ / "config.json");
  fs::create_symlink(GoldenModels() + "/gpt2_bare/model.safetensors",
                     folder_ / "model.safetensors");
  EXPECT_TRUE(OpenModel("hf:" + folder_.path()).ok());
}

TEST_F(HfFolderTest, FileThatShrinksWhileOpenIsDataLoss) {
  Copy("llama2");
  const auto opened = OpenModel("hf:" + folder_.path());
  ASSERT_TRUE(opened.ok()) << opened.status();
  fs::resize_file(folder_ / "model.safetensors", 4096);
  std::vector<float> out(97 * 32);
  const absl::Status read = (*opened)->Read("head.weight", {0, 0}, {97, 32}, out.data());
  const absl::Status last = (*opened)->Read("final_norm.weight", {0}, {32}, out.data());
  EXPECT_TRUE(absl::IsDataLoss(read) || absl::IsDataLoss(last)) << read << last;
}

TEST_F(HfFolderTest, DamagedFilesOpenOrAreRefused) {
  Copy("gpt2_sharded");
  std::mt19937_64 random(7);
  for (const char* file : {"config.json", kHfIndexName, "model-00001-of-00003.safetensors"}) {
    const std::string whole = Slurp(folder_ / file);
    for (int round = 0; round < 200; ++round) {
      Spill(folder_ / file, Mutate(whole, &random));
      const auto opened = OpenModel("hf:" + folder_.path());
      if (opened.ok()) {
        ParametersIn(**opened);
      } else {
        EXPECT_FALSE(opened.status().message().empty());
      }
    }
    Spill(folder_ / file, whole);
  }
}

}  // namespace
}  // namespace stretto
