// SPDX-License-Identifier: Apache-2.0
#pragma once
// The models of tests/golden/models, and folders made of them with something changed.

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/worker/test_files.h"
#include "worker/checkpoint/safetensors.h"
#include "worker/engine/model/parameters.h"
#include "worker/exchange/model_source.h"
#include "worker/exchange/widen.h"

namespace stretto {

inline std::string GoldenModels() {
  return std::string(STRETTO_SOURCE_DIR) + "/tests/golden/models";
}

// "hf:gpt2_bare" or "llmc:llmc_f32/model.bin", opened where it lies.
inline absl::StatusOr<std::unique_ptr<ModelSource>> OpenGolden(const std::string& name) {
  const size_t colon = name.find(':') + 1;
  return OpenModel(name.substr(0, colon) + GoldenModels() + "/" + name.substr(colon));
}

struct PlainTensor {
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;

  std::vector<float> Floats() const {
    std::vector<float> values(bytes.size() / (dtype == "F32" ? 4 : 2));
    if (dtype == "F32") {
      std::memcpy(values.data(), bytes.data(), bytes.size());
      return values;
    }
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t stored;
      std::memcpy(&stored, bytes.data() + 2 * i, 2);
      values[i] = dtype == "BF16" ? FloatOfBf16(stored) : FloatOfF16(stored);
    }
    return values;
  }
};

// All tensors of a folder, by name, whole in memory.
inline std::map<std::string, PlainTensor> TensorsOf(const std::string& folder) {
  std::map<std::string, PlainTensor> tensors;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = SafetensorsReader::Open(entry.path().string());
    EXPECT_TRUE(file.ok()) << file.status();
    for (const StoredTensor& tensor : file->header().tensors) {
      PlainTensor& plain = tensors[tensor.name];
      plain = {tensor.dtype, tensor.shape, std::string(static_cast<size_t>(tensor.bytes), '\0')};
      EXPECT_TRUE(file->Read(tensor, 0, tensor.bytes, plain.bytes.data()).ok());
    }
  }
  return tensors;
}

inline void WriteTensors(const std::string& path,
                         const std::map<std::string, PlainTensor>& tensors) {
  std::vector<SourceTensor> list;
  for (const auto& [name, tensor] : tensors) {
    list.push_back({name, tensor.dtype, tensor.shape, tensor.bytes.data()});
  }
  const auto written = WriteSafetensors(path, list, {});
  ASSERT_TRUE(written.ok()) << written.status();
}

// A golden model to be damaged: its configuration and its tensors in one file.
class ChangedModel {
 public:
  explicit ChangedModel(const std::string& golden)
      : tensors(TensorsOf(GoldenModels() + "/" + golden)),
        config(nlohmann::json::parse(Slurp(GoldenModels() + "/" + golden + "/config.json"))) {}

  // Writes it and opens it.
  absl::StatusOr<std::unique_ptr<ModelSource>> Open() {
    Write();
    return OpenModel("hf:" + folder.path());
  }
  void Write() {
    Spill(folder / "config.json", config.dump());
    WriteTensors(folder / "model.safetensors", tensors);
  }

  std::map<std::string, PlainTensor> tensors;
  nlohmann::json config;
  TestFolder folder;
};

// A box of a parameter.
inline std::vector<float> ReadBox(const ModelSource& model, const Parameter& parameter) {
  // What is not written stays visible.
  std::vector<float> values(static_cast<size_t>(parameter.count()), -77.0f);
  const absl::Status read =
      model.Read(parameter.name, parameter.starts, parameter.extents, values.data());
  EXPECT_TRUE(read.ok()) << parameter.name << ": " << read;
  return values;
}

// The whole parameters, by name.
inline std::map<std::string, std::vector<float>> ParametersIn(const ModelSource& model) {
  std::map<std::string, std::vector<float>> values;
  for (const Parameter& parameter : ParametersOf(model.model(), 1, 0)) {
    values[parameter.name] = ReadBox(model, parameter);
  }
  return values;
}

// Element (i0, i1, ...) of a row-major tensor for each element of the box, in order.
template <class F>
void ForEachIn(const std::vector<int64_t>& starts, const std::vector<int64_t>& extents, F&& f) {
  std::vector<int64_t> at = starts;
  for (int64_t extent : extents) {
    if (extent == 0) return;
  }
  while (true) {
    f(at);
    size_t i = at.size();
    while (true) {
      if (i == 0) return;
      --i;
      if (++at[i] < starts[i] + extents[i]) break;
      at[i] = starts[i];
    }
  }
}

}  // namespace stretto
