#include "recipe/yaml_tree.h"

#include "support/support.h"

namespace autotrain {
namespace {

Error parse_error(const std::string& text) {
  return test::expect_error(ExitCode::kBadRecipe, [&] { parse_yaml(text, "r.yaml"); });
}

TEST(YamlTree, EveryPieceKnowsWhereItStands) {
  const YamlNode tree = parse_yaml("a: 1\nb:\n  c: [x, y]\n", "r.yaml");
  EXPECT_EQ(tree.find("a")->value.location.text(), "r.yaml:1:4");
  const YamlNode& list = tree.find("b")->value.find("c")->value;
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_EQ(list.items[1].location.text(), "r.yaml:3:10");
  EXPECT_EQ(tree.find("b")->value.find("c")->key_location.text(), "r.yaml:3:3");
}

TEST(YamlTree, QuotedTextIsToldFromPlain) {
  const YamlNode tree = parse_yaml("a: \"1\"\nb: 1\nc: null\nd: 'null'\n", "r");
  EXPECT_TRUE(tree.find("a")->value.quoted);
  EXPECT_FALSE(tree.find("b")->value.quoted);
  EXPECT_EQ(tree.find("c")->value.kind, YamlNode::Kind::kNull);
  EXPECT_EQ(tree.find("d")->value.kind, YamlNode::Kind::kScalar);
}

TEST(YamlTree, DuplicateKeysAreErrorsAtTheSecond) {
  const Error error = parse_error("a: 1\nb: 2\na: 3\n");
  EXPECT_TRUE(test::holds(error.what(), "r.yaml:3:1"));
  EXPECT_TRUE(test::holds(error.what(), "first at r.yaml:1:1"));
}

TEST(YamlTree, SyntaxErrorsSayWhere) {
  EXPECT_TRUE(test::holds(parse_error("a: [1, 2\nb: 3\n").what(), "r.yaml:2"));
  EXPECT_TRUE(test::holds(parse_error("a:\n\t- b\n").what(), "r.yaml:2"));
  EXPECT_TRUE(test::holds(parse_error("a: 1\n---\nb: 2\n").what(), "more than one"));
}

TEST(YamlTree, AliasesAreExpandedButNotToThemselves) {
  const YamlNode tree = parse_yaml("a: &x {v: 1}\nb: *x\n", "r");
  EXPECT_EQ(tree.find("b")->value.find("v")->value.scalar, "1");
  EXPECT_TRUE(test::holds(parse_error("a: &x [*x]\n").what(), "refers to itself"));
}

TEST(YamlTree, AliasBombsAreStopped) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    std::string items = before;
    for (int j = 0; j < 9; ++j) items += ", " + before;
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + items + "]\n";
  }
  EXPECT_TRUE(test::holds(parse_error(bomb).what(), "more than"));
}

TEST(YamlTree, DeepNestingIsStopped) {
  EXPECT_TRUE(
      test::holds(parse_error(std::string(200, '[') + std::string(200, ']')).what(), "nested deeper"));
  parse_error(std::string(100000, '['));
  parse_error(std::string(100000, '{'));
}

TEST(YamlTree, KeysMustBePlainText) {
  parse_error("[a, b]: 1\n");
  parse_error("? {a: 1}\n: 2\n");
  parse_error("~: 1\n");
  EXPECT_TRUE(test::holds(parse_error("a: &m {x: 1}\nb: {<<: *m}\n").what(), "extends"));
}

TEST(YamlTree, BytesThatAreNoTextAreErrorsOrText) {
  for (const std::string& bytes : {std::string("\x00\x01\x02", 3), std::string("\xff\xfe\xfd"),
                                   std::string("a: \x07"), std::string("\xef\xbb\xbf") + "a: 1"}) {
    try {
      parse_yaml(bytes, "r");
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadRecipe);
    }
  }
}

}  // namespace
}  // namespace autotrain
