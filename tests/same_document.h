// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `-o json` and `-o yaml` print is one document in two syntaxes. The YAML is read by yaml-cpp,
// which knows nothing of our printer.

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <nlohmann/json.hpp>
#include <string>

namespace stretto {

// Whether a reader of YAML takes the bare word for anything but a string.
inline bool IsNoBareString(const std::string& word) {
  return word.empty() || word == "~" || nlohmann::json::accept(word);
}

// What a command measures, as "prompt_seconds", differs between two runs of it.
inline bool IsMeasured(const std::string& path) {
  constexpr char kEnd[] = "seconds";
  return path.size() >= sizeof(kEnd) - 1 &&
         path.compare(path.size() - (sizeof(kEnd) - 1), std::string::npos, kEnd) == 0;
}

inline void ExpectSameValue(const YAML::Node& yaml, const nlohmann::json& json,
                            const std::string& path) {
  SCOPED_TRACE(path);
  if (json.is_object()) {
    ASSERT_TRUE(yaml.IsMap() && yaml.size() == json.size());
    for (const auto& [key, value] : json.items()) {
      ASSERT_TRUE(yaml[key].IsDefined()) << key;
      ExpectSameValue(yaml[key], value, path + "." + key);
    }
  } else if (json.is_array()) {
    ASSERT_TRUE(yaml.IsSequence() && yaml.size() == json.size());
    for (size_t i = 0; i < json.size(); ++i)
      ExpectSameValue(yaml[i], json[i], path + "[" + std::to_string(i) + "]");
  } else if (json.is_null()) {
    EXPECT_TRUE(yaml.IsNull());
  } else {
    ASSERT_TRUE(yaml.IsScalar());
    const std::string& text = yaml.Scalar();
    const bool quoted = yaml.Tag() == "!";
    if (json.is_string()) {
      EXPECT_EQ(text, json.get<std::string>());
      EXPECT_TRUE(quoted || !IsNoBareString(text)) << text;
    } else {
      EXPECT_FALSE(quoted) << text;
      const nlohmann::json read = nlohmann::json::parse(text, nullptr, false);
      EXPECT_TRUE(IsMeasured(path) ? read.is_number() : read == json) << text << ", " << json;
    }
  }
}

// Both are whole outputs, of the same command.
inline void ExpectSameDocument(const std::string& yaml, const std::string& json) {
  const nlohmann::json read = nlohmann::json::parse(json, nullptr, false);
  ASSERT_TRUE(read.is_structured() && !read.empty()) << json;
  ExpectSameValue(YAML::Load(yaml), read, "document");
}

}  // namespace stretto
