// SPDX-License-Identifier: Apache-2.0

// Reads boxes of parameters from tensors whose rows are parameters' rows in another order. Segments
// map rows of a parameter to rows of tensors. A box becomes runs of rows; the parts of each run are
// read from their tensors. Rows of f32 that are whole are read directly into place, all others
// through a block of bounded size. Rows of a transposed tensor are its columns, so all parts of
// such a tensor are read in one pass over its stored rows. Rows that no tensor has are padding and
// read as zero.

#include "worker/exchange/mapped_source.h"

#include <algorithm>
#include <map>
#include <utility>

#include "proto/base/check.h"
#include "proto/base/status_macros.h"
#include "worker/exchange/parameter_table.h"
#include "worker/exchange/widen.h"

namespace stretto {
namespace {

// Number of elements per read that cannot go directly into place.
constexpr int64_t kBlock = 1 << 20;

absl::Status ReadWidened(const MappedTensor& tensor, int64_t begin, int64_t count, float* out) {
  if (tensor.dtype == "F32") return tensor.read(begin * 4, count * 4, out);
  const auto widen = tensor.dtype == "BF16" ? FloatOfBf16 : FloatOfF16;
  std::vector<uint16_t> stored(std::min(count, kBlock));
  while (count > 0) {
    const int64_t n = std::min(count, kBlock);
    RETURN_IF_ERROR(tensor.read(begin * 2, n * 2, stored.data()));
    out = std::transform(stored.begin(), stored.begin() + n, out, widen);
    begin += n;
    count -= n;
  }
  return absl::OkStatus();
}

// Rows of a parameter, and their place in a tensor.
struct Segment {
  int64_t row = 0;
  int64_t rows = 0;
  size_t tensor = 0;
  int64_t stored_row = 0;
};

// A box as runs of rows, with one range of columns.
struct RowBox {
  struct Run {
    int64_t row = 0;
    int64_t rows = 0;
  };
  std::vector<Run> runs;
  int64_t first_column = 0;
  int64_t columns = 0;
};

// `vector`: for a norm or a bias, whose rows have one column.
RowBox RowsOf(std::vector<int64_t> shape, std::vector<int64_t> starts, std::vector<int64_t> extents,
              bool vector) {
  for (std::vector<int64_t>* dims : {&shape, &starts, &extents}) {
    const int64_t one = dims == &starts ? 0 : 1;
    if (vector) dims->push_back(one);
    if (dims->size() < 3) dims->insert(dims->begin(), one);
  }
  STRETTO_CHECK(shape.size() == 3);
  RowBox box{.runs = {}, .first_column = starts[2], .columns = extents[2]};
  for (int64_t a = starts[0]; a < starts[0] + extents[0]; ++a) {
    box.runs.push_back({a * shape[1] + starts[1], extents[1]});
  }
  return box;
}

class MappedSource final : public ModelSource {
 public:
  MappedSource(std::string name, const ModelSpec& model, std::vector<MappedTensor> tensors,
               std::vector<std::string> tokenizer_files)
      : name_(std::move(name)),
        model_(model),
        table_(model_),
        tensors_(std::move(tensors)),
        tokenizer_files_(std::move(tokenizer_files)) {
    dtype_ = tensors_.front().dtype;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].dtype != dtype_) dtype_ = "F32";  // F32 represents both
      int64_t stored_row = 0;
      for (const RowRange& piece : tensors_[i].layout.pieces) {
        STRETTO_CHECK(table_.parameters().count(piece.parameter) == 1);
        segments_[piece.parameter].push_back({piece.row, piece.rows, i, stored_row});
        std::string& dtype = dtypes_.emplace(piece.parameter, tensors_[i].dtype).first->second;
        if (tensors_[i].dtype != dtype) dtype = "F32";
        stored_row += piece.rows;
      }
    }
    for (const auto& [parameter, unused] : table_.parameters()) {
      STRETTO_CHECK(segments_.count(parameter) == 1);
    }
  }

  const std::string& name() const override { return name_; }
  const ModelSpec& model() const override { return model_; }
  const std::string& dtype() const override { return dtype_; }
  const std::string& dtype_of(absl::string_view parameter) const override {
    return dtypes_.at(std::string(parameter));
  }
  std::vector<std::string> tokenizer_files() const override { return tokenizer_files_; }

  absl::Status Read(absl::string_view parameter, const std::vector<int64_t>& starts,
                    const std::vector<int64_t>& extents, float* out) const override {
    ASSIGN_OR_RETURN(const Parameter* found, table_.Find(name_, parameter, starts, extents));
    const std::vector<Segment>& segments = segments_.at(found->name);
    const bool vector = tensors_[segments.front().tensor].layout.shape.size() == 1;
    const RowBox box = RowsOf(found->shape, starts, extents, vector);
    std::map<size_t, std::vector<Part>> transposed;
    int64_t out_row = 0;
    for (const RowBox::Run& run : box.runs) {
      // Rows without a segment are padding.
      std::fill_n(out + out_row * box.columns, run.rows * box.columns, 0.0f);
      for (const Segment& segment : segments) {
        const int64_t begin = std::max(run.row, segment.row);
        const int64_t end = std::min(run.row + run.rows, segment.row + segment.rows);
        if (begin >= end) continue;
        const Part part{segment.stored_row + begin - segment.row, end - begin,
                        out_row + begin - run.row};
        if (tensors_[segment.tensor].layout.transposed) {
          transposed[segment.tensor].push_back(part);
        } else {
          RETURN_IF_ERROR(ReadRows(tensors_[segment.tensor], part, box, out));
        }
      }
      out_row += run.rows;
    }
    for (const auto& [tensor, parts] : transposed) {
      RETURN_IF_ERROR(ReadColumns(tensors_[tensor], parts, box, out));
    }
    return absl::OkStatus();
  }

 private:
  struct Part {
    int64_t stored_row = 0;
    int64_t rows = 0;
    int64_t out_row = 0;
  };

  static absl::Status ReadRows(const MappedTensor& tensor, const Part& part, const RowBox& box,
                               float* out) {
    const int64_t width = tensor.layout.shape.size() == 1 ? 1 : tensor.layout.shape.back();
    // Whole rows are contiguous in the file and in `out`.
    const bool whole = box.columns == width;
    const int64_t count = whole ? part.rows * width : box.columns;
    for (int64_t row = 0; row < part.rows; row += whole ? part.rows : 1) {
      RETURN_IF_ERROR(ReadWidened(tensor, (part.stored_row + row) * width + box.first_column, count,
                                  out + (part.out_row + row) * box.columns));
    }
    return absl::OkStatus();
  }

  // Reads the stored rows that contain the box's columns, in blocks: each part is a few elements of
  // each.
  static absl::Status ReadColumns(const MappedTensor& tensor, const std::vector<Part>& parts,
                                  const RowBox& box, float* out) {
    const int64_t width = tensor.layout.shape.back();
    const int64_t block = std::min(box.columns, std::max<int64_t>(1, kBlock / width));
    std::vector<float> stored(block * width);
    for (int64_t first = 0; first < box.columns; first += block) {
      const int64_t n = std::min(block, box.columns - first);
      RETURN_IF_ERROR(
          ReadWidened(tensor, (box.first_column + first) * width, n * width, stored.data()));
      for (const Part& part : parts) {
        for (int64_t row = 0; row < part.rows; ++row) {
          const float* from = stored.data() + part.stored_row + row;
          float* to = out + (part.out_row + row) * box.columns + first;
          for (int64_t i = 0; i < n; ++i) to[i] = from[i * width];
        }
      }
    }
    return absl::OkStatus();
  }

  const std::string name_;
  const ModelSpec model_;
  const ParameterTable table_;
  const std::vector<MappedTensor> tensors_;
  const std::vector<std::string> tokenizer_files_;
  std::string dtype_;
  std::map<std::string, std::string> dtypes_;             // by parameter
  std::map<std::string, std::vector<Segment>> segments_;  // by parameter
};

}  // namespace

std::unique_ptr<ModelSource> MakeMappedSource(std::string name, const ModelSpec& model,
                                              std::vector<MappedTensor> tensors,
                                              std::vector<std::string> tokenizer_files) {
  return std::make_unique<MappedSource>(std::move(name), model, std::move(tensors),
                                        std::move(tokenizer_files));
}

}  // namespace stretto
