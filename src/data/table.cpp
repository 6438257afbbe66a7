#include <cmath>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "data/balancing.h"
#include "data/datasets.h"
#include "data/names.h"
#include "data/table_encoding.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

enum class Split { kAll, kTrain, kValidation };

Split split_of(const Parameters& p) {
  const std::string word = p.text("split");
  return word == "all" ? Split::kAll : word == "train" ? Split::kTrain : Split::kValidation;
}

// Rows are dealt by a hash of their number: a file that is sorted by class gives both parts of every class.
bool in_split(int64_t row, Split split, double validation_share) {
  if (split == Split::kAll) return true;
  Random random(derive_key(static_cast<uint64_t>(RandomUse::kSplit), row));
  return (random.uniform() < validation_share) == (split == Split::kValidation);
}

char separator_of(const Parameters& p, const fs::path& path) {
  const std::string given = p.text("separator");
  if (given.size() == 1) return given[0];
  const std::string extension = path.extension().string();
  return extension == ".tsv" || extension == ".tab" ? '\t' : ',';
}

TableFile open_table(const Parameters& p, const std::string& key) {
  const fs::path path = p.text(key);
  if (path.empty()) {
    throw Error(ExitCode::kBadRecipe, "table: " + key, "names no file", "give a .csv or .tsv file");
  }
  return {path, separator_of(p, path), p.flag("header")};
}

TableOptions options_of(const Parameters& p) {
  const std::string missing = p.text("missing");
  TableOptions options{.target = p.text("target"),
                       .task = p.text("task"),
                       .features = p.texts("features"),
                       .categorical = p.texts("categorical"),
                       .missing = missing == "fail"   ? MissingPolicy::kFail
                                  : missing == "mean" ? MissingPolicy::kMean
                                                      : MissingPolicy::kZero,
                       .standardize = p.flag("standardize")};
  if (options.target.empty()) {
    throw Error(ExitCode::kBadRecipe, "table: target", "is missing",
                "give the name of the column to be predicted, or its number from 1");
  }
  return options;
}

// Writes rows of a file as an encoding says; the columns are found by their names.
class RowEncoder {
 public:
  /// @param labelled whether rows have their target, which else is not asked for.
  RowEncoder(const TableFile& file, const TableEncoding& encoding, const TableOptions& options, bool labelled)
      : file_(file),
        encoding_(encoding),
        options_(options),
        target_(labelled ? file.column(encoding.target, "target") : 0) {
    for (const ColumnEncoding& column : encoding.features) {
      columns_.push_back(file.column(column.name, "features"));
    }
  }

  // Fills encoding.width() numbers.
  void write_features(const TableFile::Row& row, float* out) {
    for (size_t i = 0; i < columns_.size(); ++i) {
      const ColumnEncoding& column = encoding_.features[i];
      if (column.categorical)
        write_category(column, row, columns_[i], out);
      else
        *out = static_cast<float>(scaled(column, row, columns_[i]));
      out += column.width();
    }
  }

  int64_t class_of(const TableFile::Row& row) const {
    const auto found = encoding_.classes.find(class_name(row[target_].text));
    if (found != encoding_.classes.end()) return found->second;
    throw Error(ExitCode::kBadData, file_.place(row, target_),
                cat("the class ", quote(trim(row[target_].text)), " is not in the training file"),
                "correct the field, or let both files have every class");
  }

  float quantity_of(const TableFile::Row& row) const {
    if (const auto number = field_number(row[target_].text)) return static_cast<float>(*number);
    throw Error(ExitCode::kBadData, file_.place(row, target_),
                quote(trim(row[target_].text)) + " is no number to be predicted", "correct the field");
  }

  int64_t unknown_categories() const { return unknown_; }
  const std::string& first_unknown() const { return first_unknown_; }

 private:
  void write_category(const ColumnEncoding& column, const TableFile::Row& row, size_t at, float* out) {
    std::fill(out, out + column.width(), 0.0F);
    const std::string_view text = is_missing(row[at].text) ? "" : trim(row[at].text);
    const auto found = column.categories.find(text);
    if (found != column.categories.end()) {
      out[found->second] = 1;
    } else if (unknown_++ == 0) {
      first_unknown_ = file_.place(row, at) + ": " + quote(text);
    }
  }

  double scaled(const ColumnEncoding& column, const TableFile::Row& row, size_t at) const {
    const double number = number_of(column, row, at);
    const double result = options_.standardize ? (number - column.mean) / column.deviation : number;
    if (std::abs(result) <= double{std::numeric_limits<float>::max()}) return result;
    throw Error(ExitCode::kBadData, file_.place(row, at),
                quote(trim(row[at].text)) + " is too far from the column's mean for float32",
                "correct the field, or set standardize: false");
  }

  double number_of(const ColumnEncoding& column, const TableFile::Row& row, size_t at) const {
    const std::string_view text = row[at].text;
    if (const auto number = field_number(text)) return *number;
    if (!is_missing(text)) {
      throw Error(ExitCode::kBadData, file_.place(row, at),
                  quote(trim(text)) + " is no number, as the column's fields in the training file are",
                  "correct the field, or list the column in categorical");
    }
    if (options_.missing == MissingPolicy::kFail) {
      throw Error(ExitCode::kBadData, file_.place(row, at), "is missing", "fill it in, or set missing: mean");
    }
    return options_.missing == MissingPolicy::kMean ? column.mean : 0;
  }

  const TableFile& file_;
  const TableEncoding& encoding_;
  const TableOptions& options_;
  std::vector<size_t> columns_;
  size_t target_;
  int64_t unknown_ = 0;
  std::string first_unknown_;
};

int64_t count_rows(const TableFile& file, const std::function<bool(int64_t)>& wanted) {
  int64_t rows = 0;
  file.for_each_row([&](int64_t number, const TableFile::Row&) { rows += wanted(number) ? 1 : 0; });
  if (rows > 0) return rows;
  throw Error(ExitCode::kBadData, file.path(), "has no rows for this split",
              "give more rows, or another validation_share");
}

void report(const TableFile& file, const TableEncoding& encoding, const RowEncoder& encoder, int64_t rows) {
  int64_t categorical = 0;
  for (const ColumnEncoding& column : encoding.features) categorical += column.categorical ? 1 : 0;
  log::info(
      "data",
      cat(file.path(), " · ", format_count(rows), " rows · ", encoding.features.size(), " columns, ",
          categorical, " of them categorical, as ", encoding.width(), " numbers · target ", encoding.target,
          encoding.classification ? cat(": classification, ", encoding.classes.size(), " classes")
                                  : ": regression"));
  if (encoder.unknown_categories() == 0) return;
  log::warn("data", cat(encoder.first_unknown(), " is a category that the training file does not have; ",
                        encoder.unknown_categories(), " such fields count as no category"));
}

// The rows as samples, whose classes have names.
class TableDataset final : public Dataset, public Named, public Classified {
 public:
  TableDataset(TensorDataset rows, std::vector<std::string> classes)
      : rows_(std::move(rows)), classes_(std::move(classes)) {}

  int64_t size() const override { return rows_.size(); }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    return rows_.get(indices, random);
  }
  DatasetInfo info() const override { return rows_.info(); }
  std::vector<std::string> class_names() const override { return classes_; }
  std::vector<int64_t> classes_of_samples() const override { return classes_by_reading(rows_); }

 private:
  TensorDataset rows_;
  std::vector<std::string> classes_;
};

// By their numbers.
std::vector<std::string> names_of(const Categories& classes) {
  std::vector<std::string> names(classes.size());
  for (const auto& [name, number] : classes) names[static_cast<size_t>(number)] = name;
  return names;
}

// What is made of the rows of a file.
struct WantedRows {
  std::function<bool(int64_t row)> wanted;
  bool labelled = true;
};

torch::Tensor empty_targets(const TableEncoding& encoding, int64_t rows) {
  return encoding.classification ? torch::empty({rows}, torch::kInt64)
                                 : torch::empty({rows, 1}, torch::kFloat32);
}

std::unique_ptr<Dataset> encode(const TableFile& file, const TableEncoding& encoding,
                                const TableOptions& options, const WantedRows& which) {
  const int64_t rows = count_rows(file, which.wanted);
  const int64_t width = encoding.width();
  const bool classes = encoding.classification;
  torch::Tensor inputs = torch::empty({rows, width}, torch::kFloat32);
  torch::Tensor targets = which.labelled ? empty_targets(encoding, rows) : torch::Tensor();
  RowEncoder encoder(file, encoding, options, which.labelled);
  auto* features = inputs.mutable_data_ptr<float>();
  int64_t done = 0;
  file.for_each_row([&](int64_t number, const TableFile::Row& row) {
    if (!which.wanted(number)) return;
    encoder.write_features(row, features);
    features += width;
    if (!which.labelled) return;
    if (classes)
      targets.mutable_data_ptr<int64_t>()[done] = encoder.class_of(row);
    else
      targets.mutable_data_ptr<float>()[done] = encoder.quantity_of(row);
    ++done;
  });
  report(file, encoding, encoder, rows);
  const int64_t outputs = classes ? static_cast<int64_t>(encoding.classes.size()) : 1;
  return std::make_unique<TableDataset>(TensorDataset(std::move(inputs), std::move(targets), outputs),
                                        names_of(encoding.classes));
}

// As the training file asks for it.
TableEncoding encoding_of_run(const Parameters& p, const TableOptions& options) {
  const Split statistics = split_of(p) == Split::kAll ? Split::kAll : Split::kTrain;
  const double share = p.real("validation_share");
  const auto counts = [=](int64_t row) { return in_split(row, statistics, share); };
  return find_encoding(open_table(p, p.text("like").empty() ? "file" : "like"), options, counts);
}

std::unique_ptr<Dataset> make_table(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  const TableOptions options = options_of(p);
  const TableFile file = open_table(p, "file");
  const Split split = split_of(p);
  const double share = p.real("validation_share");
  return encode(file, encoding_of_run(p, options), options,
                {.wanted = [=](int64_t row) { return in_split(row, split, share); }});
}

std::unique_ptr<Dataset> make_unlabelled_table(const UnlabelledRequest& request) {
  const Parameters& p = request.parameters;
  const TableOptions options = options_of(p);
  const TableFile file(request.path, separator_of(p, request.path), p.flag("header"));
  return encode(file, encoding_of_run(p, options), options,
                {.wanted = [](int64_t) { return true; }, .labelled = false});
}

bool is_separator(const std::string& text) {
  const bool visible = text.size() == 1 && text[0] >= ' ' && text[0] <= '~' && text[0] != '"';
  return text == "auto" || text == "\t" || visible;
}

}  // namespace

DatasetRow table_row() {
  return {
      {"table",
       "Rows of a CSV or TSV file: columns of numbers, and categories with one column for each.",
       {text_key("file", "The file, with a row for each sample."),
        text_key("target", "The column to be predicted: its name, or its number from 1; to be given."),
        word_key(
            "task",
            "What the target is: one of classes, or a number; auto: classes if a field is no number or all "
            "are whole with at most 100 different ones.",
            {"auto", "classification", "regression"}, "auto"),
        list_key(KeyKind::kTextList, "features", "The columns to predict from; empty: all others.",
                 std::vector<std::string>{}),
        list_key(KeyKind::kTextList, "categorical",
                 "Columns of categories. Those with a field that is no number are it in any case.",
                 std::vector<std::string>{}),
        word_key(
            "missing",
            "What an empty field, NA, NaN or null of a column of numbers is: an error, the column's mean, "
            "or 0. Of categories it is one of its own.",
            {"fail", "mean", "zero"}, "fail"),
        bool_key("standardize", "Shift and scale columns of numbers to mean 0 and deviation 1.", true),
        text_key(
            "like",
            "The training file, for any other: columns, categories, classes, mean and deviation are then "
            "those of its rows; null: of this file's."),
        word_key("split",
                 "Which rows; mean and deviation are then those of the train rows, categories and classes "
                 "those of all.",
                 {"all", "train", "validation"}, "all"),
        real_key("validation_share", "The share of the rows, drawn by their numbers, in split: validation.",
                 0.1)
            .from(0, 0.9),
        bool_key("header", "Whether the first line names the columns; without, they are called 1, 2, …",
                 true),
        text_key("separator", "Between fields; auto: a tab in .tsv and .tab files, else a comma.", "auto")
            .with_form("auto or one character", "^(auto|[\\t !#-~])$", is_separator)}},
      make_table,
      {},
      make_unlabelled_table,
      "a table file"};
}

}  // namespace autotrain
