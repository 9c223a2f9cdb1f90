// SPDX-License-Identifier: Apache-2.0
extern "C" int stretto_fake_vendor() { return 1; }
