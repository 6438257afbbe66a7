#include "report/block_plot.h"

#include <cmath>

#include "base/text.h"
#include "report/table.h"
#include "support/support.h"

namespace autotrain {
namespace {

std::vector<std::string> grid_of(const BlockPlot& plot) {
  std::vector<std::string> rows;
  for (const std::string& line : split(plot.text(), '\n')) {
    const size_t bar = line.find("│");
    if (bar != std::string::npos) rows.push_back(line.substr(bar + std::string("│").size()));
  }
  return rows;
}

TEST(BlockPlot, PutsEachPointInItsCell) {
  BlockPlot plot{.title = "t", .series = {{"a", {0, 2}, {0, 2}}, {"b", {1}, {2}}}, .width = 3, .height = 3};
  EXPECT_EQ(grid_of(plot), (std::vector<std::string>{" ▲●", "   ", "●  "}));
  EXPECT_TRUE(test::holds(plot.text(), "▲ b"));
}

TEST(BlockPlot, ALogarithmicAxisHasEqualStepsForEqualFactors) {
  BlockPlot plot{
      .series = {{"", {1, 10, 100}, {1, 10, 100}}}, .log_x = true, .log_y = true, .width = 3, .height = 3};
  EXPECT_EQ(grid_of(plot), (std::vector<std::string>{"  ●", " ● ", "●  "}));
  plot.series[0].x[0] = 0;
  EXPECT_EQ(grid_of(plot), (std::vector<std::string>{"  ●", "   ", "●  "})) << "zero has no logarithm";
}

TEST(BlockPlot, SaysWhenThereIsNothing) {
  EXPECT_EQ((BlockPlot{.title = "t", .series = {{"", {NAN}, {1}}}}.text()), "t\n  nothing to draw\n");
}

TEST(BlockPlot, HasEscapesOnlyWhenColoursAreAskedFor) {
  BlockPlot plot{.series = {{"", {1}, {1}}}};
  EXPECT_EQ(plot.text().find('\x1b'), std::string::npos);
  plot.colour = true;
  EXPECT_TRUE(test::holds(plot.text(), "\x1b[34m●\x1b[0m"));
}

TEST(BlockPlot, AFileGetsNoColours) {
  std::FILE* const file = std::tmpfile();
  EXPECT_FALSE(wants_colour(file));
  std::fclose(file);
}

}  // namespace
}  // namespace autotrain
