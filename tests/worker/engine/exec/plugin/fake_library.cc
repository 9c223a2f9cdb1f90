extern "C" int stretto_fake_vendor() { return 1; }
