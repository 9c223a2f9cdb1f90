// SPDX-License-Identifier: Apache-2.0
#include "gtest/gtest.h"
#include "tests/parity/agreement.h"
#include "tests/parity/matrix.h"

namespace stretto::parity {
namespace {

class FullMatrixTest : public ::testing::TestWithParam<Layout> {};

TEST_P(FullMatrixTest, AgreesWithItsOracleAndItsBaseline) { ExpectAgreement(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Layouts, FullMatrixTest, ::testing::ValuesIn(LayoutsOf(FullMatrixRows())),
                         NameOfLayout);

}  // namespace
}  // namespace stretto::parity
