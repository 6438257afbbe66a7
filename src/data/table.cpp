#include <algorithm>

#include "autotrain/error.h"
#include "autotrain/log.h"
#include "base/random.h"
#include "base/text.h"
#include "base/units.h"
#include "data/balancing.h"
#include "data/datasets.h"
#include "data/file_names.h"
#include "data/names.h"
#include "data/table_encoding.h"
#include "data/table_look.h"
#include "data/table_rows.h"

namespace autotrain {

DatasetRow table_row();  // below

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

// The keys of a table where none is given.
const Parameters& defaults() {
  static const ChoiceSpec spec = table_row().spec;
  static const Choice choice = {.name = spec.name};
  static const Parameters parameters(choice, spec);
  return parameters;
}

// The keys of a table, of which those that are left at their defaults are as the training data have them.
class TableKeys {
 public:
  explicit TableKeys(const Parameters& own, const Parameters* training = nullptr)
      : own_(own), training_(training) {}

  std::string text(const std::string& key) const { return value(key, &Parameters::text); }
  std::vector<std::string> texts(const std::string& key) const { return value(key, &Parameters::texts); }
  bool flag(const std::string& key) const { return value(key, &Parameters::flag); }
  double real(const std::string& key) const { return value(key, &Parameters::real); }

 private:
  template <class T>
  T value(const std::string& key, T (Parameters::*read)(const std::string&) const) const {
    const T own = (own_.*read)(key);
    return training_ != nullptr && own == (defaults().*read)(key) ? (training_->*read)(key) : own;
  }

  const Parameters& own_;
  const Parameters* training_;
};

TableFormatOptions format_of(const TableKeys& keys, const fs::path& path,
                             const std::optional<TableFormat>& like) {
  const std::string separator = keys.text("separator"), decimal = keys.text("decimal"),
                    extension = path.extension().string();
  TableFormatOptions options{.header = keys.flag("header"),
                             .likely_separator = extension == ".tsv" || extension == ".tab" ? '\t' : ',',
                             .like = like};
  if (like) options.likely_separator = like->separator;
  if (separator.size() == 1) options.separator = separator[0];
  if (decimal != "auto") options.decimal = decimal == "comma" ? DecimalMark::kComma : DecimalMark::kPoint;
  return options;
}

// @param like how the training file is written, where this is another one.
TableFile open_table(const TableKeys& keys, const fs::path& path,
                     const std::optional<TableFormat>& like = {}) {
  if (path.empty())
    throw Error(ExitCode::kBadRecipe, "table: file", "names no file", "give a .csv or .tsv file");
  return {path, format_of(keys, path, like)};
}

TableOptions options_of(const TableKeys& keys, const TargetUse& use) {
  const std::string missing = keys.text("missing");
  TableOptions options{.target = keys.text("target"),
                       .task = keys.text("task"),
                       .weight_column = keys.text("weight_column"),
                       .features = keys.texts("features"),
                       .categorical = keys.texts("categorical"),
                       .numeric = keys.texts("numeric"),
                       .missing = missing == "fail"   ? MissingPolicy::kFail
                                  : missing == "mean" ? MissingPolicy::kMean
                                                      : MissingPolicy::kZero,
                       .missing_words = keys.texts("missing_words"),
                       .bad_cells_are_missing = keys.text("bad_cells") == "missing",
                       .standardize = keys.flag("standardize"),
                       .targets = use};
  if (options.target.empty()) {
    throw Error(ExitCode::kBadRecipe, "table: target", "is missing",
                "give the name of the column to be predicted, or its number from 1");
  }
  return options;
}

int64_t count_rows(const TableFile& file, const std::function<bool(int64_t)>& wanted) {
  int64_t rows = 0, all = 0;
  file.for_each_row([&](int64_t number, const TableFile::Row&) { ++all, rows += wanted(number) ? 1 : 0; });
  if (rows > 0) return rows;
  if (all == 0) throw Error(ExitCode::kBadData, file.path(), "has no rows");
  throw Error(ExitCode::kBadData, file.path(), "has no rows for this split",
              "give more rows, or another validation_share");
}

std::string unusual_format(const TableFormat& format) {
  std::string text;
  if (format.separator != ',' && format.separator != '\t')
    text += cat(" · separated by ", quote(std::string(1, format.separator)));
  return text + (format.decimal == DecimalMark::kComma ? " · decimal commas" : "");
}

void report(const TableFile& file, const TableEncoding& encoding, const RowEncoder& encoder, int64_t rows) {
  const int64_t categorical = std::ranges::count_if(encoding.features, &ColumnEncoding::categorical);
  log::info("data", cat(file.path(), " · ", format_count(rows), " rows · ", encoding.features.size(),
                        " columns, ", categorical, " of them categorical, as ", encoding.width(), " numbers",
                        unusual_format(file.format()), " · target ", encoding.target, ": ", encoding.task(),
                        " (", encoding.reason, ")"));
  if (!encoding.left_out.empty() && file.path() == encoding.path)
    log::warn("data", cat(file.path(), ": columns without a name and without a value, which are left out: ",
                          some_of(encoding.left_out)));
  if (const FieldPlaces& unknown = encoder.unknown_categories(); unknown.count > 0) {
    log::warn("data", cat(unknown.first[0].where, ": ", unknown.first[0].text,
                          " is a category that the training file does not have; ", unknown.count,
                          " such fields count as no category"));
  }
  if (const FieldPlaces& bad = encoder.bad_cells_as_missing(); bad.count > 0) {
    log::warn("data", cat(bad.first[0].where, ": ", bad.first[0].text, " is no number, and so is missing",
                          bad.counted_others()));
  }
}

// By their numbers.
std::vector<std::string> names_of(const Categories& classes) {
  std::vector<std::string> names(classes.size());
  for (const auto& [name, number] : classes) names[static_cast<size_t>(number)] = name;
  return names;
}

// The rows as samples, whose classes have names.
class TableDataset final : public Dataset,
                           public Named,
                           public Classified,
                           public Weighted,
                           public ReadTable {
 public:
  TableDataset(TensorDataset rows, TableEncoding encoding, std::string path, const TableOptions& options,
               std::vector<double> weights)
      : rows_(std::move(rows)),
        encoding_(std::move(encoding)),
        path_(std::move(path)),
        standardized_(options.standardize),
        weight_column_(options.weight_column),
        weights_(std::move(weights)) {}

  int64_t size() const override { return rows_.size(); }
  Batch get(c10::ArrayRef<int64_t> indices, const SampleRandom& random) const override {
    return rows_.get(indices, random);
  }
  DatasetInfo info() const override { return rows_.info(); }
  std::vector<int64_t> classes_of_samples() const override { return classes_by_reading(rows_); }
  std::vector<std::string> class_names() const override { return names_of(encoding_.classes); }
  const std::vector<double>& weights_of_samples() const override { return weights_; }
  std::string source_of_weights() const override { return cat(path_, ": ", weight_column_); }
  const TableEncoding& encoding() const override { return encoding_; }
  const std::string& path() const override { return path_; }
  bool standardized() const override { return standardized_; }

 private:
  TensorDataset rows_;
  TableEncoding encoding_;
  std::string path_;
  bool standardized_;
  std::string weight_column_;
  std::vector<double> weights_;
};

// What is made of the rows of a file.
struct WantedRows {
  std::function<bool(int64_t row)> wanted;
  bool labelled = true;
  bool weighted = false;  ///< where the options name a column of weights
};

torch::Tensor empty_targets(const TableEncoding& encoding, int64_t rows) {
  return encoding.form == TargetForm::kClass ? torch::empty({rows}, torch::kInt64)
                                             : torch::empty({rows, 1}, torch::kFloat32);
}

float number_for(RowEncoder& encoder, const TableEncoding& encoding, const TableFile::Row& row) {
  return encoding.form == TargetForm::kLabel ? static_cast<float>(encoder.class_of(row))
                                             : encoder.quantity_of(row);
}

std::unique_ptr<Dataset> encode(const TableFile& file, TableEncoding encoding, const TableOptions& options,
                                const WantedRows& which) {
  const int64_t rows = count_rows(file, which.wanted);
  const int64_t width = encoding.width();
  const bool classes = encoding.form == TargetForm::kClass;
  torch::Tensor inputs = torch::empty({rows, width}, torch::kFloat32);
  torch::Tensor targets = which.labelled ? empty_targets(encoding, rows) : torch::Tensor();
  RowEncoder encoder(file, encoding, options, which.labelled);
  const bool weighted = which.weighted && !options.weight_column.empty();
  const size_t weight = weighted ? file.column(options.weight_column, "weight_column") : 0;
  std::vector<double> weights;
  auto* features = inputs.mutable_data_ptr<float>();
  int64_t done = 0;
  file.for_each_row([&](int64_t number, const TableFile::Row& row) {
    if (!which.wanted(number)) return;
    encoder.write_features(row, features);
    features += width;
    if (weighted) weights.push_back(encoder.weight_of(row, weight));
    if (!which.labelled) return;
    if (classes)
      targets.mutable_data_ptr<int64_t>()[done] = encoder.class_of(row);
    else
      targets.mutable_data_ptr<float>()[done] = number_for(encoder, encoding, row);
    ++done;
  });
  encoder.check();
  report(file, encoding, encoder, rows);
  const int64_t outputs = classes ? static_cast<int64_t>(encoding.classes.size()) : 1;
  return std::make_unique<TableDataset>(TensorDataset(std::move(inputs), std::move(targets), outputs),
                                        std::move(encoding), file.path(), options, std::move(weights));
}

// The file by which a table is read: what `like` names, else its own.
fs::path source_of(const Parameters& p) {
  return p.text("like").empty() ? p.text("file") : p.text("like");
}

[[noreturn]] void fail_difference(const std::string& key, const std::string& own, const std::string& other) {
  throw Error(ExitCode::kBadRecipe, "table: " + key,
              cat("is ", own, "; the training data, by which other data are read, have ", other),
              "leave it out there, or give both the same");
}

// What data other than the training data ask for must be what these are read by.
void check_like_training(const Parameters& own, const Parameters& training, const TableFile& file,
                         const TableEncoding& encoding) {
  if (!own.text("like").empty() && !are_same(own.text("like"), source_of(training)))
    fail_difference("like", quote(own.text("like")), quote(source_of(training).string()));
  if (!own.text("target").empty() &&
      file.columns()[file.column(own.text("target"), "target")] != encoding.target)
    fail_difference("target", quote(own.text("target")), quote(encoding.target));
  const std::string weights = own.text("weight_column"), others = training.text("weight_column");
  if (!weights.empty() && weights != others)
    fail_difference("weight_column", quote(weights), others.empty() ? "none" : quote(others));
  const std::string task = own.text("task");
  if (task != "auto" && (task == "classification") != encoding.has_classes())
    fail_difference("task", task, encoding.has_classes() ? "classification" : "regression");
  if (!own.flag("standardize") && training.flag("standardize"))
    fail_difference("standardize", "false", "true");
  const auto column_of = [&](const std::string& name, const std::string& key) {
    const std::string& found = file.columns()[file.column(name, key)];
    return std::ranges::find(encoding.features, found, &ColumnEncoding::name);
  };
  for (const std::string& name : own.texts("features")) {
    if (column_of(name, "features") == encoding.features.end())
      fail_difference("features", join(own.texts("features"), ", "), cat("no feature ", quote(name)));
  }
  if (!own.texts("features").empty() && own.texts("features").size() != encoding.features.size())
    fail_difference("features", join(own.texts("features"), ", "),
                    cat(encoding.features.size(), " features"));
  for (const char* const key : {"categorical", "numeric"}) {
    for (const std::string& name : own.texts(key)) {
      const auto column = column_of(name, key);
      if (column == encoding.features.end() || column->categorical != (key[0] == 'c'))
        fail_difference(key, join(own.texts(key), ", "), cat(quote(name), " otherwise"));
    }
  }
}

// Rows are dealt alike, so that none is in both parts.
void check_splits(const Parameters& own, const Parameters& training) {
  const bool dealt = split_of(own) != Split::kAll && split_of(training) != Split::kAll;
  const double share = own.real("validation_share"), other = training.real("validation_share");
  const bool differ = share != other && share != defaults().real("validation_share");
  if (dealt && differ && are_same(own.text("file"), training.text("file")))
    fail_difference("validation_share", shortest(share), shortest(other));
}

// As the training file asks for it.
TableEncoding encoding_of_run(const Parameters& own, const Parameters* training, const TargetUse& use) {
  const Parameters& p = training != nullptr ? *training : own;
  const TableKeys keys(p);
  const Split statistics = split_of(p) == Split::kAll ? Split::kAll : Split::kTrain;
  const double share = p.real("validation_share");
  const auto counts = [=](int64_t row) { return in_split(row, statistics, share); };
  const TableFile file = open_table(keys, source_of(p));
  TableEncoding encoding = find_encoding(file, options_of(keys, use), counts);
  if (training == nullptr) return encoding;
  check_like_training(own, *training, file, encoding);
  check_splits(own, *training);
  return encoding;
}

std::optional<TableFormat> like_training(const Parameters* training, const TableEncoding& encoding) {
  return training == nullptr ? std::nullopt : std::optional(encoding.format);
}

std::unique_ptr<Dataset> make_table(const DatasetRequest& request) {
  const Parameters& p = request.parameters;
  const TableKeys keys(p, request.training);
  TableEncoding encoding = encoding_of_run(p, request.training, request.targets);
  const TableFile file = open_table(keys, p.text("file"), like_training(request.training, encoding));
  const Split split = split_of(p);
  const double share = keys.real("validation_share");
  return encode(file, std::move(encoding), options_of(keys, request.targets),
                {.wanted = [=](int64_t row) { return in_split(row, split, share); },
                 .weighted = request.training == nullptr});
}

std::unique_ptr<Dataset> make_unlabelled_table(const UnlabelledRequest& request) {
  const Parameters& p = request.parameters;
  const TableKeys keys(p, request.training);
  TableEncoding encoding = encoding_of_run(p, request.training, request.targets);
  const TableFile file = open_table(keys, request.path, encoding.format);
  return encode(file, std::move(encoding), options_of(keys, request.targets),
                {.wanted = [](int64_t) { return true; }, .labelled = false});
}

// Validation data of which the training data have every row, since both are one file and not divided.
void doubt_same_file(const Parameters& own, const Parameters& training, DataLook& look) {
  const bool dealt = split_of(own) != Split::kAll && split_of(training) != Split::kAll;
  if (dealt || !have_same_bytes(own.text("file"), training.text("file"))) return;
  look.doubt(cat(word_of(look.role), " data that are the training data"),
             "set split: train and split: validation", own.text("file"));
}

// At a start where that takes next to no time.
void look_for_shared_groups(const LookRequest& request, const TableFile& file, const TableEncoding& encoding,
                            DataLook& look) {
  constexpr uintmax_t kSmallFiles = 16 << 20;  // bytes
  const Parameters &own = request.made_from.parameters, &training = *request.made_from.training;
  std::error_code none;
  const uintmax_t bytes = fs::file_size(own.text("file"), none) + fs::file_size(training.text("file"), none);
  if (request.options.depth != LookDepth::kWhole && (none || bytes > kSmallFiles)) return;
  const TableFile theirs = open_table(TableKeys(training), training.text("file"), encoding.format);
  const auto part_of = [](const Parameters& p, double share) {
    return [split = split_of(p), share](int64_t row) { return in_split(row, split, share); };
  };
  const double share = TableKeys(own, &training).real("validation_share");
  doubt_shared_groups({file, part_of(own, share)},
                      {theirs, part_of(training, training.real("validation_share"))}, encoding.target, look);
}

void look_at_table(const LookRequest& request, DataLook& look) {
  const Parameters& p = request.made_from.parameters;
  const Parameters* const training = request.made_from.training;
  if (look.role != DataRole::kPredicted && request.training != nullptr && training != nullptr) {
    doubt_same_file(p, *training, look);
    if (split_of(p) != Split::kAll && !have_same_bytes(p.text("file"), training->text("file")))
      doubt_part_of_others(p.text("file"), p.text("split"), look);
  }
  const TableKeys keys(p, training);
  const TableEncoding& encoding = dynamic_cast<const ReadTable&>(request.data).encoding();
  const TableFile file = open_table(keys, p.text("file"), like_training(training, encoding));
  if (look.role != DataRole::kPredicted && request.training != nullptr && training != nullptr)
    look_for_shared_groups(request, file, encoding, look);
  look_at_rows(request, file, MissingWords(keys.texts("missing_words")), look);
}

bool is_separator(const std::string& text) {
  const bool visible = text.size() == 1 && text[0] >= ' ' && text[0] <= '~' && text[0] != '"';
  return text == "auto" || text == "\t" || visible;
}

std::vector<KeySpec> table_keys() {
  return {
      text_key("file", "The file, with a row for each sample."),
      text_key("target", "The column to be predicted: its name, or its number from 1; to be given."),
      word_key("task",
               "What the target is: one of classes, or a number; auto: what the loss takes; where it "
               "leaves that "
               "open, classes if fields are words or all are whole with at most 100 different ones.",
               {"auto", "classification", "regression"}, "auto"),
      list_key(KeyKind::kTextList, "features", "The columns to predict from; empty: all others.",
               std::vector<std::string>{}),
      text_key(
          "weight_column",
          "The column of numbers from 0 on by which balance: weights has an epoch see the rows; no feature "
          "unless features names it, too; null: none."),
      list_key(KeyKind::kTextList, "categorical",
               "Columns of categories. Those of words are it in any case; a column that is mostly numbers is "
               "it only if it is named here.",
               std::vector<std::string>{}),
      list_key(KeyKind::kTextList, "numeric", "Columns of numbers, whatever most of their fields are.",
               std::vector<std::string>{}),
      word_key("bad_cells", "What a field that is no number is in a column of numbers: an error, or missing.",
               {"fail", "missing"}, "fail"),
      word_key("missing",
               "What a missing field of a column of numbers is: an error, the column's mean, or 0. Of "
               "categories, "
               "an empty field is one of its own, and words are words.",
               {"fail", "mean", "zero"}, "fail"),
      list_key(
          KeyKind::kTextList, "missing_words",
          "What is missing beside empty fields, in any case of letters: in columns of numbers, and in the "
          "target unless it is quoted.",
          MissingWords::usual()),
      bool_key("standardize", "Shift and scale columns of numbers to mean 0 and deviation 1.", true),
      text_key(
          "like",
          "The file whose rows columns, categories, classes, mean and deviation are of; null: that of the "
          "training data, or this one where these are they. Other data also take from them the keys that "
          "they "
          "leave out."),
      word_key("split",
               "Which rows; mean and deviation are then those of the train rows, categories and classes "
               "those of all.",
               {"all", "train", "validation"}, "all"),
      real_key("validation_share", "The share of the rows, drawn by their numbers, in split: validation.",
               0.1)
          .from(0, 0.9),
      bool_key("header", "Whether the first line names the columns; without, they are called 1, 2, …", true),
      text_key("separator",
               "Between fields; auto: that of comma, semicolon, tab and | by which all lines have as many "
               "fields, or which a first line sep=; names.",
               "auto")
          .with_form("auto or one character", "^(auto|[\\t !#-~])$", is_separator),
      word_key("decimal", "What stands before the decimals of numbers; auto: what the file's numbers show.",
               {"auto", "point", "comma"}, "auto")};
}

}  // namespace

DatasetRow table_row() {
  return {{"table", "Rows of a CSV or TSV file: columns of numbers, and categories with one column for each.",
           table_keys()},
          make_table,
          {},
          make_unlabelled_table,
          "a table file",
          look_at_table,
          {},
          "file"};
}

}  // namespace autotrain
