// SPDX-License-Identifier: Apache-2.0
#pragma once
// A SentencePiece unigram model small enough to read, in the wire format of its ModelProto.

#include <cstring>
#include <string>

namespace stretto {

inline std::string ProtoBytes(int field, const std::string& content) {
  return std::string(1, static_cast<char>(field << 3 | 2)) + static_cast<char>(content.size()) +
         content;
}

inline std::string ProtoVarint(int field, char value) {
  return std::string(1, static_cast<char>(field << 3)) + value;
}

// SentencePiece {piece = 1, score = 2 (float), type = 3}; types: 1 normal, 2 unknown, 3 control.
inline std::string Piece(const std::string& text, float score, char type) {
  std::string bytes(4, '\0');
  std::memcpy(bytes.data(), &score, 4);
  return ProtoBytes(1, ProtoBytes(1, text) + "\x15" + bytes + ProtoVarint(3, type));
}

// Pieces: 0 <unk>, 1 <s>, 2 </s> (or a normal piece), 3 "\u2581" (a space), 4 a, 5 b, 6 ab.
inline std::string TinyModel(bool with_end) {
  return Piece("<unk>", 0, 2) + Piece("<s>", 0, 3) +
         (with_end ? Piece("</s>", 0, 3) : Piece("c", -2, 1)) + Piece("\xe2\x96\x81", -1, 1) +
         Piece("a", -2, 1) + Piece("b", -2, 1) + Piece("ab", -1, 1) +
         ProtoBytes(2, ProtoVarint(3, 1)) +         // trainer_spec: model_type UNIGRAM
         ProtoBytes(3, ProtoBytes(1, "identity"));  // normalizer_spec: name
}

}  // namespace stretto
