// SPDX-License-Identifier: Apache-2.0
#include "worker/trainer/agreement/control.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "proto/base/status_macros.h"

namespace stretto::trainer {
namespace {

TensorView Vector(int32_t* data, int64_t count) {
  return {.data = data, .dtype = DType::kI32, .shape = {count, 1, 1, 1}, .rank = 1};
}

}  // namespace

absl::StatusOr<ControlWord> Agree(Communicator& group, ControlWord mine) {
  if (group.size() == 1) return mine;
  std::array<int32_t, 4> word = {mine.stop, mine.checkpoint, mine.fenced, mine.saving};
  RETURN_IF_ERROR(
      group.Run(Collective::AllReduce(Vector(word.data(), std::ssize(word)), ReduceOp::kMax)));
  return ControlWord{
      .stop = word[0] > 0, .checkpoint = word[1] > 0, .fenced = word[2] > 0, .saving = word[3] > 0};
}

absl::StatusOr<bool> AnyRank(Communicator& group, bool mine) {
  if (group.size() == 1) return mine;
  int32_t word = mine;
  RETURN_IF_ERROR(group.Run(Collective::AllReduce(Vector(&word, 1), ReduceOp::kMax)));
  return word > 0;
}

absl::StatusOr<std::vector<std::string>> ExchangeText(Communicator& group,
                                                      const std::string& mine) {
  if (group.size() == 1) return std::vector<std::string>{mine};
  const size_t ranks = group.size();
  int32_t size = static_cast<int32_t>(mine.size());
  std::vector<int32_t> sizes(ranks);
  RETURN_IF_ERROR(
      group.Run(Collective::AllGather(Vector(&size, 1), Vector(sizes.data(), group.size()))));
  // All ranks gather equally many words, as many as the longest text needs.
  const int64_t words = (*std::max_element(sizes.begin(), sizes.end()) + 3) / 4;
  std::vector<int32_t> own(words), all(words * ranks);
  std::copy_n(mine.data(), mine.size(), reinterpret_cast<char*>(own.data()));
  RETURN_IF_ERROR(group.Run(
      Collective::AllGather(Vector(own.data(), words), Vector(all.data(), words * group.size()))));
  std::vector<std::string> texts;
  for (size_t r = 0; r < ranks; ++r) {
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + r * words), sizes[r]);
  }
  return texts;
}

absl::StatusOr<std::vector<std::vector<double>>> ExchangeNumbers(Communicator& group,
                                                                 const std::vector<double>& mine) {
  if (group.size() == 1 || mine.empty()) return std::vector(group.size(), mine);
  const int64_t words = std::ssize(mine) * 2;  // communicators have no type of 64 bits
  std::vector<int32_t> own(words), all(words * group.size());
  std::memcpy(own.data(), mine.data(), words * sizeof(int32_t));
  RETURN_IF_ERROR(group.Run(
      Collective::AllGather(Vector(own.data(), words), Vector(all.data(), words * group.size()))));
  std::vector<std::vector<double>> numbers(group.size(), mine);
  for (int rank = 0; rank < group.size(); ++rank) {
    std::memcpy(numbers[rank].data(), all.data() + rank * words, words * sizeof(int32_t));
  }
  return numbers;
}

absl::StatusOr<std::string> BroadcastText(Communicator& group, const std::string& mine, int root) {
  if (group.size() == 1) return mine;
  int32_t size = static_cast<int32_t>(mine.size());
  RETURN_IF_ERROR(group.Run(Collective::Broadcast(Vector(&size, 1), root)));
  std::vector<int32_t> words((size + 3) / 4);
  // Not memcpy, which must not be called for an empty text's null pointer.
  if (group.rank() == root) {
    std::copy_n(mine.data(), size, reinterpret_cast<char*>(words.data()));
  }
  RETURN_IF_ERROR(group.Run(Collective::Broadcast(Vector(words.data(), std::ssize(words)), root)));
  return std::string(reinterpret_cast<const char*>(words.data()), size);
}

std::string PackText(const absl::StatusOr<std::string>& result) {
  return result.ok() ? "+" + *result : "-" + std::string(result.status().message());
}

}  // namespace stretto::trainer
