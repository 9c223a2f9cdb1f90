// SPDX-License-Identifier: Apache-2.0

// A library of a driver that is too old: it lacks almost everything.
extern "C" int nvmlInit_v2() { return 0; }
