#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "autotrain/recipe.h"

namespace autotrain {

enum class KeyKind { kBool, kInteger, kReal, kText, kWord, kIntegerList, kRealList, kTextList };

/// What a key's value decides. Resumes and kept plans go by it.
enum class Decides {
  kUndeclared,         ///< a mistake: a test fails
  kLearning,           ///< what is learned, but not what an update takes: a plan stays as it is
  kLearningAndMemory,  ///< both
  kMemory,             ///< how an update is executed: its memory, its cut, its speed
  kRun,                ///< only what is kept, shown or reported of a run, and when
};

constexpr bool decides_learning(Decides what) {
  return what == Decides::kLearning || what == Decides::kLearningAndMemory;
}
constexpr bool decides_memory(Decides what) {
  return what == Decides::kMemory || what == Decides::kLearningAndMemory;
}

/// One key of a recipe, declared once: reading, printing, the reference configuration and the JSON
/// Schema all follow from it.
///
///     integer_key("depth", "Hidden layers.", 2).from(1, 1000)
///     real_key("lr", "Learning rate.").above(0)
struct KeySpec {
  std::string name;
  KeyKind kind = KeyKind::kText;
  std::string sentence;
  Value fallback = {};
  std::string unit = "";  ///< of numbers: "samples", "seconds"
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool above_least = false;  ///< `least` itself is not allowed

  /// kWord: the choices. Otherwise: words allowed instead of a value, such as "auto".
  std::vector<std::string> words = {};

  /// kText and kTextList with a form: what is allowed in words, its regular expression, and whether a text
  /// has it.
  std::string form = "";
  std::string pattern = "";
  std::function<bool(const std::string&)> accepts = nullptr;

  /// kText: names under which values may stand in the place of one: {cpu: 256MiB, cuda: 4GiB}.
  std::vector<std::string> parts = {};

  /// Lists: the number of items; 0 is any.
  size_t length = 0;

  /// Lists: one item may be written without brackets.
  bool single = false;

  /// kUndeclared: what its section's keys decide.
  Decides decides = Decides::kUndeclared;

  /// The key without which this one changes nothing, and that one's values by which it does not: "patience"
  /// beside it, or the whole path, "execution.precision".
  std::string owner = "";
  std::vector<Value> owner_off = {};

  KeySpec from(double smallest, double largest = kLargest) const;  ///< both included
  KeySpec above(double bound, double largest = kLargest) const;    ///< `bound` excluded
  KeySpec in(std::string unit_name) const;
  KeySpec or_word(std::string word) const;
  KeySpec of_length(size_t items) const;
  KeySpec or_single() const;
  KeySpec or_for_each(std::vector<std::string> names) const;
  KeySpec deciding(Decides what) const;
  KeySpec idle_where(std::string other_key, std::vector<Value> has) const;
  KeySpec with_form(std::string in_words, std::string regular_expression,
                    std::function<bool(const std::string&)> test) const;

  static constexpr double kLargest = 0x1p53;  ///< the last integer that JSON readers keep exactly
};

KeySpec bool_key(std::string name, std::string sentence, Value fallback = {});
KeySpec integer_key(std::string name, std::string sentence, std::optional<int64_t> fallback = {});
KeySpec real_key(std::string name, std::string sentence, std::optional<double> fallback = {});
KeySpec text_key(std::string name, std::string sentence, Value fallback = {});
KeySpec word_key(std::string name, std::string sentence, std::vector<std::string> words, Value fallback = {});
KeySpec list_key(KeyKind kind, std::string name, std::string sentence, Value fallback = {});

/// Whether a key may have the value: its type, range, words and form. Null always is: it unsets the key.
bool allows(const KeySpec& key, const Value& value);

/// What a key allows, in words: "a number from 0 to 1", "auto or an integer ≥ 1 (samples)".
std::string allowed_text(const KeySpec& key);

/// A value as YAML writes it on one line.
std::string yaml_text(const Value& value);

/// One row of a table that a recipe chooses from by name.
struct ChoiceSpec {
  std::string name = "";
  std::string sentence = "";
  std::vector<KeySpec> keys = {};

  /// Schedules: the evaluations decide the learning rate, so that when there is one decides what is learned.
  bool follows_evaluations = false;
  bool rises = false;       ///< schedules: begins with a rise of its own, in the place of a warm-up
  bool only_falls = false;  ///< schedules: never rises after warm-up, and falls at some time
};

/// Every table a recipe chooses from. The recipe room knows their shape only; the rooms above own
/// the rows.
struct Catalog {
  std::vector<ChoiceSpec> datasets;
  std::vector<ChoiceSpec> models;
  std::vector<ChoiceSpec> losses;
  std::vector<ChoiceSpec> optimizers;
  std::vector<ChoiceSpec> schedules;
  std::vector<ChoiceSpec> lr_rules;
  std::vector<ChoiceSpec> strategies;
  std::vector<ChoiceSpec> metrics;  ///< "topK" stands for top1, top2, …
};

/// Of the name of a metric that the row "topK" stands for, its K: 5 of "top5"; nothing of other names.
std::optional<int64_t> top_of(const std::string& name);

/// What `choice` gives for a key that its row declares, else, or for null, the key's default.
const Value& parameter_or_default(const Choice& choice, const KeySpec& key);

/// "lr" of "optimizer.lr".
std::string last_part(const std::string& path);

/// Reads the parameters of a choice with the row's defaults. Asking for a key that the row does not
/// declare, or as another type, is a bug of the row and throws std::logic_error.
class Parameters {
 public:
  Parameters(const Choice& choice, const ChoiceSpec& row) : choice_(choice), row_(row) {}

  int64_t integer(const std::string& key) const;
  double real(const std::string& key) const;
  bool flag(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::vector<int64_t> integers(const std::string& key) const;
  std::vector<double> reals(const std::string& key) const;  ///< empty when the key is null
  std::vector<std::string> texts(const std::string& key) const;

  /// Returns nothing when the key is null or holds a word such as "auto".
  std::optional<int64_t> optional_integer(const std::string& key) const;

 private:
  const Value& value(const std::string& key) const;

  const Choice& choice_;
  const ChoiceSpec& row_;
};

}  // namespace autotrain
