#include "cli/local_ranks.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "autotrain/error.h"
#include "base/command_line.h"
#include "base/files.h"
#include "base/text.h"
#include "comm/launch.h"
#include "comm/local_ranks.h"

namespace autotrain {
namespace fs = std::filesystem;

namespace {

// Becomes this program again.
int start_again(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  ::execv("/proc/self/exe", arguments.data());
  return static_cast<int>(ExitCode::kInternal);
}

// Of a pipe one process reads the recipe, and the others what it left: an empty one, or a part.
void check_read_often(const fs::path& config) {
  std::error_code error;
  if (config.empty() || !fs::exists(config, error) || fs::is_regular_file(config, error)) return;
  throw Error(ExitCode::kUsage, "--config",
              cat(config.string(), " can be read once, and each of several ranks reads the recipe"),
              "write the recipe to a file, and name that");
}

}  // namespace

void RanksOption::declare(CLI::App& app) {
  app.add_option("--ranks", ranks, "Processes of this machine that make the run together")
      ->check(CLI::Range(int64_t{1}, kMostLocalRanks));
}

bool RanksOption::starts_them() const {
  const Launch launch = detect_launch(process_environment());
  if (launch.place.world == 1) return ranks > 1;
  if (ranks == 1 || ranks == launch.place.world) return false;
  throw Error(ExitCode::kUsage, "--ranks",
              cat(ranks, " are asked for, and ", to_string(launch.by), " started ", launch.place.world),
              "leave --ranks out where a launcher starts the ranks");
}

ExitCode run_local_ranks(int64_t ranks, const fs::path& config) {
  check_read_often(config);
  const std::vector<std::string> words = own_command_line();
  const fs::path logs = make_temporary_folder("autotrain-ranks");
  const auto remove = [&](const void*) {
    std::error_code ignored;
    fs::remove_all(logs, ignored);
  };
  const std::unique_ptr<const void, decltype(remove)> remover(&logs, remove);
  const RanksEnd end = run_ranks(
      ranks, [&](int64_t) { return start_again(words); },
      [&](int64_t rank) { return rank == 0 ? fs::path() : logs / cat("rank-", rank, ".log"); });
  std::fputs(end.text.c_str(), stderr);
  return end.code;
}

RankLog::RankLog(int64_t rank, const PrintOptions& options)
    : rank_(rank), terminal_level_(log::Level::kWarning) {
  const log::Level level = options.verbose ? log::Level::kDebug : log::Level::kInfo;
  log::set_sink([this](const log::Record& record) { write(record); }, level);
}

RankLog::~RankLog() {
  log::set_sink(log::terminal_sink(), log::Level::kWarning);
}

void RankLog::on_folder(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) return;  // another host's
  fs::create_directories(folder / "ranks", error);
  const std::lock_guard lock(mutex_);
  file_.open(folder / "ranks" / cat("rank-", rank_, ".log"), std::ios::app);
}

void RankLog::write(const log::Record& record) {
  const std::lock_guard lock(mutex_);
  if (file_.is_open()) file_ << '[' << record.room << "] " << record.text << std::endl;
  if (record.level >= terminal_level_)
    std::fprintf(stderr, "rank %lld: [%s] %s\n", static_cast<long long>(rank_),
                 std::string(record.room).c_str(), std::string(record.text).c_str());
}

}  // namespace autotrain
