#include "compress/method.h"

#include <gtest/gtest.h>
#include "support/support.h"

namespace autotrain {
namespace {

TEST(CompressionMethods, AreReadWithTheirNumbersAndNameTheirFiles) {
  const auto methods = parse_methods("int8, int4-weights:32,2:4,channels:0.25,int8-weights");
  ASSERT_EQ(methods.size(), 5U);
  EXPECT_EQ(methods[0].kind, Compression::kInt8);
  EXPECT_EQ(methods[1].group, 32);
  EXPECT_EQ(methods[2].kind, Compression::kSparse);
  EXPECT_EQ(methods[3].share, 0.25);
  EXPECT_EQ(methods[3].file_name(), "channels-0.25.safetensors");
  EXPECT_EQ(methods[2].file_name(), "2-4.safetensors");
  EXPECT_EQ(parse_methods("int4-weights")[0].group, 64);
}

TEST(CompressionMethods, WhatIsNoneIsRefusedByItsWord) {
  for (const char* const words : {"int7", "channels", "channels:0", "channels:1", "channels:half",
                                  "int4-weights:48", "int8:2", "int8,int8", "", "int8,"}) {
    const Error error = test::expect_error(ExitCode::kUsage, [&] { parse_methods(words); });
    EXPECT_TRUE(test::holds(error.what(), "--methods")) << words;
  }
}

}  // namespace
}  // namespace autotrain
