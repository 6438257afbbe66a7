#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
#ifndef __SANITIZE_ADDRESS__  // which looks for leaks at the end
  std::fflush(nullptr);
  std::_Exit(code);  // as the program ends: LibTorch takes long to take itself apart
#endif
  return code;
}
