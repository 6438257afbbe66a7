#include "report/figure_table.h"

#include <cmath>

#include "base/text.h"
#include "support/support.h"

namespace autotrain {
namespace {

const FigureTable kClasses{"classes", "class", "boxes, AP, AP50", {{12, 0.25, 1}, {0, NAN, NAN}}};

TEST(FigureTable, ColumnsHaveNamesWhereThereIsAWordForEach) {
  EXPECT_EQ(column_names(kClasses), (std::vector<std::string>{"boxes", "AP", "AP50"}));
  EXPECT_TRUE(column_names({"m", "true class", "predicted class", {{1, 2}, {3, 4}}}).empty());
  EXPECT_TRUE(column_names({"m", "true class", "found class, last: nothing", {{1, 2}, {3, 4}}}).empty());
  EXPECT_TRUE(column_names({"m", "class", "boxes, AP", {{1, 2, 3}}}).empty());
  EXPECT_TRUE(column_names({"m", "class", "boxes, AP", {}}).empty());
}

TEST(FigureTable, CountsAreWholeAndFiguresHaveThreeDigitsAndWhatIsNotKnownIsEmpty) {
  EXPECT_EQ(cells_in_words(kClasses, 0), (std::vector<std::string>{"12", "0.250", "1.000"}));
  EXPECT_EQ(cells_in_words(kClasses, 1), (std::vector<std::string>{"0", "", ""}));
}

TEST(FigureTable, RowsAreNamedByTheirClassesAndNoLineIsWiderThanATerminal) {
  const std::string text = text_of(kClasses, {"dress", std::string(200, 'x')});
  EXPECT_TRUE(test::holds(text, "classes\nclass"));
  EXPECT_TRUE(test::holds(text, "\ndress  "));
  for (const std::string& line : split(text, '\n')) EXPECT_LE(display_width(line), 80U) << line;
  EXPECT_TRUE(test::holds(text_of(kClasses, {}), "\n    0  ")) << "numbers, where nothing names them";
}

TEST(FigureTable, NumberedColumnsStayAsTheyWere) {
  const std::string text = text_of({"m", "true", "said", {{1, 20}, {0.5, 4}}}, {"a", "b"});
  EXPECT_TRUE(test::holds(text, "true \\ said")) << text;
  EXPECT_FALSE(test::holds(text, "a ")) << text;
}

TEST(FigureTable, ClassNamesAreThoseOfARunsFolder) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(class_names_of(folder.path()).empty());
  folder.write(kClassesFile, "a thing\nb\n");
  EXPECT_EQ(class_names_of(folder.path()), (std::vector<std::string>{"a thing", "b"}));
  EXPECT_TRUE(class_names_of("").empty()) << "a run without a folder";
}

}  // namespace
}  // namespace autotrain
