#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace autotrain {

enum class Command { kTrain, kPlan, kVerify, kDoctor, kCompare, kSweep, kReport, kConfig, kSchema, kHelp };

/// The command line, read.
struct Options {
  Command command = Command::kTrain;
  std::filesystem::path config;
  std::vector<std::string> overrides;
  std::filesystem::path output;
  bool resume = false;
  bool allow_change = false;
  bool fresh_plan = false;
  bool alternatives = false;
  int64_t verify_updates = 12;
  int64_t verify_kills = 4;
  double doctor_seconds = 3;
  std::vector<std::filesystem::path> recipes;  ///< to compare
  int64_t seeds = 3;
  std::string target;  ///< "accuracy=0.9"
  std::string figure;
  bool training_set = false;
  bool converge = false;                       ///< `sweep --mode converge`
  std::string vary;                            ///< of a sweep: "batch.effective=64,256"
  std::vector<std::string> rules;              ///< values of batch.lr_rule
  std::vector<std::string> sweep_settings;     ///< what the sweep's options say, as --set would
  std::filesystem::path weights;               ///< of a sweep: a run's folder or a safetensors file
  std::vector<std::filesystem::path> folders;  ///< of `report`
  std::filesystem::path together;              ///< one page of all of them; empty: each its own
  bool quiet = false;
  bool verbose = false;
  bool json = false;
  std::string help;  ///< kHelp: what to print
};

/// @throws Error(kUsage) with what is wrong and the nearest known word.
Options parse_options(int argc, const char* const* argv);

}  // namespace autotrain
