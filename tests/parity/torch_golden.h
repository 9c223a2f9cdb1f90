// SPDX-License-Identifier: Apache-2.0
#pragma once
// Against PyTorch: files made by make_torch_golden.py (DESIGN section 5).

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/parity/expect.h"
#include "tests/parity/harness.h"

namespace stretto::parity {

struct Golden {
  ModelSpec model;
  std::vector<double> losses;
  std::vector<std::string> names;
  Tensors gradients;
};

// From STRETTO_GOLDEN where that names a folder (the bundle's), else from the source tree.
inline Golden ReadGolden(const std::string& name) {
  const char* packed = std::getenv("STRETTO_GOLDEN");
  const std::string folder = packed ? packed : STRETTO_SOURCE_DIR "/tests/golden";
  const std::string path = folder + "/torch_" + name;
  std::ifstream text(path + ".txt"), data(path + ".gradients.f32", std::ios::binary);
  EXPECT_TRUE(text.good() && data.good()) << path;
  Golden golden;
  std::map<std::string, std::string> fields;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string kind, value;
    size_t elements;
    double loss;
    words >> kind >> value;
    if (kind == "loss" && words >> loss) {
      golden.losses.push_back(loss);
    } else if (kind == "tensor" && words >> elements) {
      golden.names.push_back(value);
      Floats& gradient = golden.gradients.emplace_back(elements);
      data.read(reinterpret_cast<char*>(gradient.data()),
                static_cast<std::streamsize>(elements * sizeof(float)));
      EXPECT_TRUE(data.good()) << value;
    } else {
      fields[kind] = value;
    }
  }
  EXPECT_EQ(data.peek(), std::ifstream::traits_type::eof());
  const auto number = [&](const char* field) { return std::stoi(fields.at(field)); };
  // Where the file has the field.
  const auto set = [&](const char* field, auto* value) {
    if (fields.contains(field)) std::istringstream(fields.at(field)) >> *value;
    return fields.contains(field);
  };
  golden.model = {.architecture = *FindArchitecture(fields.at("family")),
                  .layers = number("layers"),
                  .hidden = number("hidden"),
                  .heads = number("heads"),
                  .kv_heads = number("kv_heads"),
                  .ffn_hidden = number("ffn_hidden"),
                  .sequence_length = number("sequence_length"),
                  .vocab_size = number("vocab_size")};
  set("rotary_base", &golden.model.rotary_base);
  set("norm_epsilon", &golden.model.norm_epsilon);
  if (bool tied; set("tied_head", &tied)) golden.model.tied_head = tied;
  RotaryScaling& scaling = golden.model.rotary_scaling;
  if (set("rotary_factor", &scaling.factor)) scaling.kind = RotaryScaling::Kind::kLlama3;
  set("rotary_low", &scaling.low_frequency_factor);
  set("rotary_high", &scaling.high_frequency_factor);
  set("rotary_original", &scaling.original_sequence_length);
  return golden;
}

struct TorchCase {
  std::string golden;
  Layout layout;  // its family is the golden model's
};

inline std::string NameOfTorchCase(const ::testing::TestParamInfo<TorchCase>& info) {
  return info.param.golden + "_" + NameOfLayout({info.param.layout, info.index});
}
inline void PrintTo(const TorchCase& c, std::ostream* out) { *out << NameOfTorchCase({c, 0}); }

// Ten losses and every gradient agree.
inline void ExpectAgreesWithTorch(const TorchCase& c, const MakeMachine& machine) {
  const Golden golden = ReadGolden(c.golden);
  EngineSpec spec = SpecOf(c.layout);
  ASSERT_EQ(spec.model.architecture.family, golden.model.architecture.family);
  spec.model = golden.model;
  const Result result = Train(
      spec, {.steps = 10, .clip_norm = 0.25, .gradients_of_step = 0, .same_batch = true}, machine);
  EXPECT_GT(result.steps[0].gradient_norm, 0.25);  // clipping is at work
  ASSERT_EQ(golden.losses.size(), 10u);
  for (size_t step = 0; step < 10; ++step) {
    EXPECT_NEAR(result.steps[step].loss, golden.losses[step], kF32LossBound * golden.losses[step])
        << "step " << step;
  }
  const std::vector<Parameter> parameters = ParametersOf(spec.model, 1, 0);
  ASSERT_EQ(golden.names.size(), parameters.size());
  for (size_t i = 0; i < parameters.size(); ++i) EXPECT_EQ(golden.names[i], parameters[i].name);
  ExpectGradientsWithin(kF32GradientBound, spec.model, result.gradients, golden.gradients);
}

}  // namespace stretto::parity
