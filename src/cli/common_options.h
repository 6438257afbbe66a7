#pragma once

#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include "autotrain/log.h"
#include "autotrain/recipe.h"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace autotrain {

/// Options that several commands take. Each `declare` adds them to a command, whose values then fill the
/// object; it must outlive the reading of the command line.

/// --set
struct OverrideOptions {
  std::vector<std::string> overrides;

  void declare(CLI::App& app, const char* sentence);
};

/// --config, --set, --fresh-plan
struct RecipeOptions : OverrideOptions {
  std::filesystem::path config;
  bool fresh_plan = false;

  void declare(CLI::App& app);

  /// @throws Error(kUsage) when no recipe was named.
  void check_named() const;

  /// The recipe with its overrides. @throws Error(kUsage) when none was named, and as load_recipe does.
  Recipe load() const;

 private:
  std::string command_;  // as it is typed: "autotrain plan"
};

/// --quiet, --verbose, --json
struct PrintOptions {
  bool quiet = false;
  bool verbose = false;
  bool json = false;

  void declare(CLI::App& app);

  /// Whether the command tells how far it is.
  bool talks() const { return !json && !quiet; }

  /// The least level that the log shows while a command prints its result itself.
  log::Level log_level() const;
};

/// --output
struct OutputOption {
  std::filesystem::path output;

  void declare(CLI::App& app, const char* sentence);
};

/// Why `given` is no number above 0; "": it is one. To be given to CLI::Option::check.
std::string no_positive_number(const std::string& given);

/// Lets numbers from `least` to `most` pass. CLI::Range would let "nan" pass too.
CLI::Validator number_from(double least, double most);

/// Options that would be ignored. @throws Error(kUsage) naming the first of these that was given.
void refuse_options(const CLI::App& app, std::initializer_list<const char*> names, const std::string& problem,
                    const std::string& advice);

/// Options that mean something with another one only, which was not given.
void refuse_without(const std::string& other, const CLI::App& app, std::initializer_list<const char*> names);

/// For commands that write a folder: each of several ranks would do all of it, into the same one.
/// @throws Error(kUsage) when a launcher (torchrun, Slurm, an mpirun) started more than one.
void refuse_several_ranks();

}  // namespace autotrain
