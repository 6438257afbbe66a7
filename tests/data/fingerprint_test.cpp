#include "data/fingerprint.h"

#include "support/support.h"

namespace autotrain {
namespace {

using test::TemporaryFolder;

std::string only_fingerprint(const Choice& choice, const std::string& text) {
  const std::map<std::string, std::string> files = fingerprints_of_data(choice);
  EXPECT_EQ(files.size(), 1U);
  return files.contains(text) ? files.at(text) : "";
}

TEST(Fingerprint, OfAPatternIsThatOfWhatItMatches) {
  const TemporaryFolder folder;
  folder.write("a/1.txt", "one");
  folder.write("a/2.txt", "two");
  folder.write("b/1.txt", "one");
  folder.write("b/2.txt", "two");
  const auto of = [&](const std::string& pattern) {
    const std::string text = (folder / pattern).string();
    return only_fingerprint({"text", {{"files", std::vector<std::string>{text}}}}, text);
  };
  const std::string before = of("a/*.txt");
  EXPECT_FALSE(before.empty());
  EXPECT_EQ(of("b/*.txt"), before) << "wherever they lie";
  folder.write("a/2.txt", "TWO");
  EXPECT_NE(of("a/*.txt"), before) << "of as many bytes";
  folder.write("b/3.txt", "");
  EXPECT_NE(of("b/*.txt"), before);
}

TEST(Fingerprint, OfSeveralInputsIsThatOfEachFile) {
  const TemporaryFolder folder;
  folder.write("x.npy", "one");
  const std::string text = "image=" + (folder / "x.npy").string();
  const Choice choice{"npy", {{"arrays", std::vector<std::string>{text}}}};
  EXPECT_EQ(only_fingerprint(choice, text), fingerprint_of(folder / "x.npy"));
}

}  // namespace
}  // namespace autotrain
