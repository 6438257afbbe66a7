#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "autotrain/figures.h"

namespace autotrain {

/// The names of a table's columns, where `columns_are` has one word for each ("boxes, AP, AP50"); none are
/// returned where columns are numbered.
std::vector<std::string> column_names(const FigureTable& table);

/// What stands above the columns: their names, or their numbers.
std::vector<std::string> column_headings(const FigureTable& table);

/// The cells of a row as a person reads them: whole numbers, and others to three digits; nothing for NaN.
/// Of numbered columns all are to six digits.
std::vector<std::string> cells_in_words(const FigureTable& table, size_t row);

/// What a row is: the class's name where the rows are classes that have some, else its number.
std::string row_name(const FigureTable& table, size_t row, const std::vector<std::string>& classes);

/// The table on a terminal, below its name. With named columns it is no wider than 80 characters.
std::string text_of(const FigureTable& table, const std::vector<std::string>& classes);

/// The file of a run's folder that names its classes, one on each line.
inline constexpr const char* kClassesFile = "classes.txt";

/// The names in it; empty where there is none.
std::vector<std::string> class_names_of(const std::filesystem::path& run);

/// What has changed, in words, where the classes of a run's training data have other names or numbers now
/// than it learned; "" where they are alike, or nobody named them.
std::string change_of_classes(const std::filesystem::path& run, std::vector<std::string> now);

}  // namespace autotrain
