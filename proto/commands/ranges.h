// SPDX-License-Identifier: Apache-2.0
#pragma once
// Checks of numbers on command lines. A refusal has what was found and what was expected.

#include <cstdint>
#include <string>

namespace CLI {
class Validator;
}

namespace stretto {

// Accepts integers from `low` to `high`. A limit of a type, such as INT32_MAX, is no limit in
// words: "found -3, expected an integer of at least 0".
CLI::Validator Integer(int64_t low, int64_t high);

// `expected` describes the range: "a number above 0".
CLI::Validator Number(double low, double high, const std::string& expected);
// "a number from 1 to 60", which CLI11's own help texts show too.
CLI::Validator Number(double low, double high);

}  // namespace stretto
