#include "base/json.h"

#include <gtest/gtest.h>

namespace autotrain {
namespace {

const std::string kNoUtf8 = "run\xff.csv";

TEST(Json, BytesThatAreNoUtf8AreWrittenAsTheReplacementCharacter) {
  const nlohmann::ordered_json json = {{"path", kNoUtf8}};
  EXPECT_EQ(words_of_json(json), "{\"path\":\"run\xef\xbf\xbd.csv\"}");
  EXPECT_EQ(text_of_json(json, kOneLine), words_of_json(json) + "\n");
  EXPECT_EQ(plain_text(nlohmann::ordered_json::array({kNoUtf8})), "[\"run\xef\xbf\xbd.csv\"]");
  EXPECT_NE(json, as_written(json));
  EXPECT_EQ(as_written(json), as_written(as_written(json)));
}

TEST(Json, ExactTextComesBackByteForByte) {
  for (const std::string& text : {std::string(), std::string("größe\n"), kNoUtf8}) {
    const auto written = nlohmann::ordered_json::parse(words_of_json(exact_text(text)));
    EXPECT_EQ(read_exact_text(written), text);
  }
  EXPECT_EQ(exact_text("größe"), "größe") << "other text stays legible";
}

}  // namespace
}  // namespace autotrain
